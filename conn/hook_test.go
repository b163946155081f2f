package conn_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
)

// TestHeadHooks: each way to an answer calls the hooks once, the last first, with the status that
// goes out, and what they set goes out.
func TestHeadHooks(t *testing.T) {
	late := func(*conn.Request, *conn.Response, int) { t.Error("a hook that came too late") }
	ways := map[string]struct {
		status int
		answer conn.Handler
	}{
		"/whole": {201, func(_ *conn.Request, w *conn.Response) int {
			w.WriteString("x")
			return 201
		}},
		"/empty": {204, func(*conn.Request, *conn.Response) int { return 204 }},
		"/page":  {404, func(*conn.Request, *conn.Response) int { return 404 }},
		"/panic": {500, func(*conn.Request, *conn.Response) int { panic("a test") }},
		"/field": {500, func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("A b", "x")
			return 200
		}},
		"/number": {500, func(*conn.Request, *conn.Response) int { return 17 }},
		"/cleared": {203, func(_ *conn.Request, w *conn.Response) int {
			w.WriteString("lost")
			w.Clear()
			return 203
		}},
		"/streamed": {202, func(_ *conn.Request, w *conn.Response) int {
			w.SetStatus(202)
			for range 3 {
				w.WriteString("x")
				w.Flush()
				w.BeforeHead(late)
			}
			return 0
		}},
		"/bridge": {418, conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(418)
		}))},
	}
	outer := func(req *conn.Request, w *conn.Response, status int) {
		w.Header().Add("Seen", fmt.Sprintf("outer %s %d", req.Path(), status))
	}
	inner := func(_ *conn.Request, w *conn.Response, status int) {
		w.Header().Add("Seen", fmt.Sprintf("inner %d", status))
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			w.BeforeHead(outer)
			w.BeforeHead(inner)
			return ways[req.Path()].answer(req, w)
		}})
		for path, way := range ways {
			a := s.Request("GET "+path, nil, "")
			want := []string{fmt.Sprintf("inner %d", way.status),
				fmt.Sprintf("outer %s %d", path, way.status)}
			if a.StatusCode != way.status || !slices.Equal(a.Header["Seen"], want) {
				t.Errorf("%s: %s, %q", path, a.Status, a.Header["Seen"])
			}
		}
	}, plain, direct)
}

// TestHeadHookOfOneRequest: the next request of the connection has none, and a field that is not
// valid costs nothing but itself.
func TestHeadHookOfOneRequest(t *testing.T) {
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		if req.Path() == "/hook" {
			w.BeforeHead(func(_ *conn.Request, w *conn.Response, _ int) {
				w.Header().Set("Bad", "a\r\nb: c")
				w.Header().Set("Good", "x")
			})
		}
		return 200
	}})
	c := s.Dial()
	for path, want := range map[string]string{"/hook": "x", "/": ""} {
		a := c.Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
		if a.StatusCode != 200 || a.Header.Get("Good") != want || a.Header.Get("Bad") != "" {
			t.Errorf("%s: %s, %v", path, a.Status, a.Header)
		}
	}
	if log := s.Log.String(); strings.Count(log, "header left out") != 1 {
		t.Errorf("log:\n%s", log)
	}
}

// TestHeadHookInHook: a hook that sets another one has no effect on those that are still to come, or
// on the next response.
func TestHeadHookInHook(t *testing.T) {
	hook := func(name string) conn.HeadHook {
		return func(_ *conn.Request, w *conn.Response, _ int) {
			w.Header().Add("Seen", name)
			w.BeforeHead(func(*conn.Request, *conn.Response, int) { t.Error("a hook of a hook") })
		}
	}
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		w.BeforeHead(hook("outer"))
		w.BeforeHead(hook("inner"))
		return 200
	}})
	c := s.Dial()
	for range 2 {
		a := c.Do("GET", "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if !slices.Equal(a.Header["Seen"], []string{"inner", "outer"}) {
			t.Errorf("%s: %q", a.Status, a.Header["Seen"])
		}
	}
}
