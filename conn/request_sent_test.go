package conn_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
)

// TestSentTarget: what goes on of a target, what the client has asked for, and how the path is
// read.
func TestSentTarget(t *testing.T) {
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		l := req.Layer()
		if strings.HasPrefix(req.Path(), "/app") {
			l.SetPrefix("/app/")
		}
		if to := req.Header().Get("To"); to != "" {
			if err := l.Rewrite(to); err != nil {
				t.Error(to, err)
			}
			l.SetPrefix("/app/")
		}
		fmt.Fprintf(w, "%s %s %s", l.AppendTarget(nil), l.OriginalTargetView(), l.AppendSubPath(nil))
		for _, r := range l.OtherReadings() {
			fmt.Fprintf(w, " %q", r.Path)
		}
		return 200
	}})
	for _, c := range []struct{ target, to, want string }{
		{"/app", "", "/app /app "},
		{"/app/a%2Fb?x=%2F", "", `/app/a%2Fb?x=%2F /app/a%2Fb?x=%2F /a%2Fb "/app/a\x00b"`},
		{"/app/./[%3B]?|", "", "/app/%5B%3B%5D?| /app/%5B%3B%5D?| /%5B%3B%5D"},
		{"/app/x?", "", "/app/x? /app/x? /x"},
		{"//app//b", "", `/app//b /app//b //b "/app//b"`},
		{"http://b:81/app/p%2f?q", "", `/app/p%2f?q /app/p%2f?q /p%2f "/app/p\x00"`},
		{"HTTP://b", "", "/ / /"}, {"http://b?q=://x/", "", "/?q=://x/ /?q=://x/ /"},
		{"/http://b/", "", `/http://b/ /http://b/ /http://b/ "/http://b/"`},
		{"/old/../o%3B?a", "/app//%2Fn|?",
			`/app//%2Fn%7C? /o%3B?a //%2Fn%7C "/app/\x00n|" "/app///n|" "/app//\x00n|" "/app//n|"`},
		{"/old?a", "/app/n%2fm", `/app/n%2fm /old?a /n%2fm "/app/n\x00m"`},
	} {
		a := s.Request("GET "+c.target, []string{"To: " + c.to}, "")
		if a.StatusCode != 200 || a.Text != c.want {
			t.Errorf("%s %s: %d\n got %s\nwant %s", c.target, c.to, a.StatusCode, a.Text, c.want)
		}
	}
}

// TestForwardedTarget: an application that names what is to be sent (X-Accel-Redirect) means the
// very path that it names.
func TestForwardedTarget(t *testing.T) {
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		status, err := req.Layer().Forward(req.Header().Get("To"), w,
			func(req *conn.Request, w *conn.Response) int {
				l := req.Layer()
				fmt.Fprintf(w, "%s %s %s", l.AppendTarget(nil), l.OriginalTargetView(), req.Path())
				return 200
			})
		if err != nil {
			t.Error(err)
		}
		return status
	}})
	a := s.Request("GET /x", []string{"To: /files//a%2Fb%3B?q=%2F"}, "")
	if want := "/files//a%2Fb%3B?q=%2F /files//a%2Fb%3B?q=%2F /files/a/b;"; a.Text != want {
		t.Errorf("got %s, want %s", a.Text, want)
	}
}
