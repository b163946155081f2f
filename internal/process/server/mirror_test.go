package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestMirror: another upstream gets copies of what a route gets, with the bodies, by proxy and by
// fastcgi. One that refuses, cuts or hangs fails no request and slows none.
func TestMirror(t *testing.T) {
	t.Parallel()
	copies, free := make(chan string, 10), make(chan struct{})
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.URL.Path == "/hang" {
			<-free
			return
		}
		if r.URL.Path == "/cut" {
			panic(http.ErrAbortHandler)
		}
		copies <- fmt.Sprint(r.Method, " ", r.URL, " ", r.Header.Get("X-A"), " ", r.ContentLength, " ",
			string(body), " ", err)
		fmt.Fprint(w, strings.Repeat("nobody gets this", 10_000))
	})
	web := httptest.NewServer(app)
	t.Cleanup(web.Close)
	t.Cleanup(func() { close(free) })
	dead := must.Listen(t)
	nobody := dead.Addr().String()
	must.Do(t, dead.Close())
	s := source()
	s.Counters = new(config.Counters)
	seen := func(figure string) int64 {
		m := s.Counters.Counted()[0]
		return m.Value(figure)
	}
	route := func(address, more string) string {
		return "[[site]]\n[[site.route]]\nprefix = '/'\nhandler = 'echo'\nmirror = { to = '/copies' }\n" +
			"[[site.route]]\nprefix = '/copies'\ninternal = true\nmodule = 'proxy'\nstrip_prefix = " +
			"true\naddress = '" +
			address + "'\n" + more
	}
	dir := t.TempDir()
	srv := sites(t, s, dir, route(web.Listener.Addr().String(), "")+"auth = { request = '/check' }\n"+
		"[[site.route]]\nprefix = '/check'\nmodule = 'response'\nstatus = 204\n")
	for _, tt := range []struct{ line, body, want string }{
		{"GET /a%20b?c", "", "GET /a%20b?c 1 0  <nil>"},
		{"POST /x", "hello", "POST /x 1 5 hello <nil>"},
	} {
		fields := []string{"X-A: 1"}
		if tt.body != "" {
			fields = append(fields, fmt.Sprint("Content-Length: ", len(tt.body)))
		}
		if a := srv.Request(tt.line, fields, tt.body); a.StatusCode != 200 ||
			strings.Contains(a.Text, "nobody") {
			t.Fatalf("%s: %s %q", tt.line, a.Status, a.Text)
		}
		if got := <-copies; got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	if a := srv.Request("GET /copies/x", nil, ""); a.StatusCode != 404 {
		t.Errorf("the route for copies: %s", a.Status)
	}
	wait.Until(t, "two copies", func() bool { return seen("active") == 0 && seen("requests") == 2 })
	for range 70 {
		if a := srv.Request("GET /hang", nil, ""); a.StatusCode != 200 {
			t.Fatal(a.Status)
		}
	}
	wait.Until(t, "copies that hang", func() bool {
		return seen("active") == 64 && seen("dropped_busy") == 6 && seen("failed") == 0
	})
	srv.Stop(0)
	for path, address := range map[string]string{"/cut": web.Listener.Addr().String(), "/x": nobody} {
		s.Counters = new(config.Counters)
		srv = sites(t, s, dir, route(address, ""))
		if a := srv.Request("GET "+path, nil, ""); a.StatusCode != 200 {
			t.Fatal(a.Status)
		}
		wait.Until(t, path, func() bool {
			return seen("requests") == 1 && seen("failed") == 1 && seen("active") == 0
		})
	}
	m := s.Counters.Counted()[0]
	if m.Kind != "mirror" || m.Site != "*" || m.Route != "/" || m.Of != "/copies" {
		t.Errorf("%+v", m)
	}
}
