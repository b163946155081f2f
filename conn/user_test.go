package conn_test

import (
	"testing"

	"github.com/lwango/lwango/conn"
)

// TestUser: handlers and the access log learn the user of their request, and no other; credentials
// that were for the server are in no Header.
func TestUser(t *testing.T) {
	log := new(entries)
	s := start(t, direct, conn.Config{AccessLog: log,
		Handler: func(req *conn.Request, w *conn.Response) int {
			switch req.Path() {
			case "/early":
				req.Layer().SetUser("ann", "Basic")
			case "/late":
				req.Header()
				req.Layer().SetUser("bob", "Basic")
			case "/other":
				req.Layer().SetUser("eve", "")
			}
			w.WriteString(req.User() + "|" + req.AuthType() + "|" + req.Header().Get("authorization"))
			return 200
		}})
	c := s.Dial()
	for _, test := range []struct{ path, want, user string }{
		{"/early", "ann|Basic|", "ann"},
		{"/", "||Basic eDp5", ""},
		{"/late", "bob|Basic|", "bob"},
		{"/other", "eve||Basic eDp5", "eve"},
		{"/", "||Basic eDp5", ""},
	} {
		got := c.Do("GET", "GET "+test.path+" HTTP/1.1\r\nHost: a\r\nAuthorization: Basic eDp5\r\n\r\n")
		if got.Text != test.want {
			t.Errorf("%s: %q, want %q", test.path, got.Text, test.want)
		}
		if e := log.one(t); e.User != test.user {
			t.Errorf("%s: %q in the access log, want %q", test.path, e.User, test.user)
		}
	}
}
