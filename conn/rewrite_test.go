package conn_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
)

// TestRewrite: the handlers see the new path and query, and Target stays what was sent.
func TestRewrite(t *testing.T) {
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		to := req.Header().Get("To")
		before, view := req.Path(), req.Layer().PathView()
		_ = req.Query()
		_, _ = req.Form()
		err := req.Layer().Rewrite(to)
		if before != string(view) {
			t.Errorf("%q: a view of the old path is now %q", before, view)
		}
		l := req.Layer()
		if string(l.PathView()) != req.Path() || string(l.QueryView()) != req.RawQuery() {
			t.Errorf("%q, %q: the views differ: %q, %q", req.Path(), req.RawQuery(), req.Layer().PathView(),
				req.Layer().QueryView())
		}
		form, _ := req.Form()
		fmt.Fprintln(w, req.Path(), req.RawQuery(), req.Query(), form, req.Target(), l.Rewrites(),
			err)
		return 200
	}})
	for _, c := range []struct{ to, want string }{
		{"/new", "/new  map[] map[] /old?a=1 1 <nil>"},
		{"/new?b=2", "/new b=2 map[b:[2]] map[b:[2]] /old?a=1 1 <nil>"},
		{"/new?b=%32?x", "/new b=%32?x map[b:[2?x]] map[b:[2?x]] /old?a=1 1 <nil>"},
		{"//a/%2e%2e/%62%2F?", "/b/  map[] map[] /old?a=1 1 <nil>"},
		{"/", "/  map[] map[] /old?a=1 1 <nil>"},
		{"", "refused"}, {"?a", "refused"}, {"new", "refused"}, {"/..", "refused"},
		{"/%", "refused"}, {"/%00", "refused"}, {"/\x7f", "refused"}, {"/a b", "refused"},
		{"/a?\tb", "refused"},
	} {
		if c.want == "refused" {
			c.want = "/old a=1 map[a:[1]] map[a:[1]] /old?a=1 0 " + conn.ErrTarget.Error()
		}
		if c.to == "/\x7f" { // no client can send it in a field
			continue
		}
		a := s.Request("GET /old?a=1", []string{"To: " + c.to}, "")
		if got := strings.TrimSpace(a.Text); got != c.want {
			t.Errorf("%q: got  %s\nwant %s", c.to, got, c.want)
		}
	}
}

// TestRewriteBound: the eleventh is refused, and the next request of the connection begins anew.
func TestRewriteBound(t *testing.T) {
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		for i := range 10 {
			if err := req.Layer().Rewrite(fmt.Sprintf("/%d", i)); err != nil {
				t.Error(i, err)
			}
		}
		if err := req.Layer().Rewrite("/x"); !errors.Is(err, conn.ErrRewrites) || req.Path() != "/9" {
			t.Error(err, req.Path())
		}
		return 204
	}})
	c := s.Dial()
	for range 2 {
		if a := c.Do("GET", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); a.StatusCode != 204 {
			t.Error(a.Status)
		}
	}
}

// TestRewriteForStandardHandlers: they see the new URL, and the target as it was sent.
func TestRewriteForStandardHandlers(t *testing.T) {
	std := conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.URL.Path+" "+r.URL.RawQuery+" "+r.RequestURI)
	}))
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		if err := req.Layer().Rewrite("/n%C3%A9?b=2"); err != nil {
			t.Error(err)
		}
		return std(req, w)
	}})
	a := s.Request("GET /old?a=1", nil, "")
	if want := "/né b=2 /old?a=1"; a.Text != want {
		t.Errorf("got %q, want %q", a.Text, want)
	}
}

func TestHeaderViewFrom(t *testing.T) {
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		l := req.Layer()
		for v, next := l.HeaderViewFrom("x-a", 0); next > 0; v, next = l.HeaderViewFrom("x-a", next) {
			fmt.Fprintf(w, "%s;", v)
		}
		return 200
	}})
	if a := s.Request("GET /", []string{"X-A: 1", "X-B: 2", "x-a: 3"}, ""); a.Text != "1;3;" {
		t.Errorf("got %q", a.Text)
	}
}

// TestOnce: once in a request, and again in the next one and in one that takes its place.
func TestOnce(t *testing.T) {
	a, b := new(int), new(int)
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		l := req.Layer()
		fmt.Fprint(resp, l.Once(a), l.Once(b), l.Once(a), l.Once(b))
		_ = req.Layer().Rewrite("/other")
		fmt.Fprint(resp, req.Layer().Once(a))
		req.Layer().Instead("/page", resp, func(req *conn.Request, resp *conn.Response) int {
			l := req.Layer()
			fmt.Fprint(resp, l.Once(a), l.Once(a))
			return 200
		})
		fmt.Fprint(resp, req.Layer().Once(b))
		return 200
	}})
	c := s.Dial()
	for range 2 {
		if got := c.Do("GET", get).Text; got != "true true false falsefalsetrue falsefalse" {
			t.Error(got)
		}
	}
}

// TestSlashOfRewritten: a target that a rule has made is not shown to the client.
func TestSlashOfRewritten(t *testing.T) {
	mux := handlers.NewMux()
	mux.Handle("/internal/shop/", func(req *conn.Request, resp *conn.Response) int { return 204 })
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		if req.Path() == "/shop" {
			if err := req.Layer().Rewrite("/internal/shop?key=s"); err != nil {
				return 500
			}
		}
		return mux.Serve(req, resp)
	}})
	if a := s.Request("GET /shop", nil, ""); a.StatusCode != 404 || a.Header.Get("Location") != "" {
		t.Errorf("%s %s", a.Status, a.Header.Get("Location"))
	}
	if a := s.Request("GET /internal/shop", nil, ""); a.StatusCode != 307 {
		t.Error(a.Status)
	}
}
