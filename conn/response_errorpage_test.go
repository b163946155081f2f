package conn_test

import (
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
)

// TestOnError: which answers get a page, of whom, and what becomes of the connection.
func TestOnError(t *testing.T) {
	page := func(text string, ok bool) conn.ErrorPage {
		return func(req *conn.Request, w *conn.Response, status int) bool {
			switch req.Path() {
			case "/panic-in-page":
				panic("a test")
			case "/streamed-page": // the status is not the page's to choose
				w.Layer().Clear()
				w.SetStatus(200)
				w.WriteString("streamed")
				w.Flush()
				return ok
			case "/bad-page":
				w.Header().Set("A b", "x")
				return ok
			}
			w.Header().Set("Page", text)
			if ok {
				w.WriteString(text)
			}
			return ok
		}
	}
	ways := map[string]struct {
		status int
		body   string // what it begins with
		answer conn.Handler
	}{
		"/empty": {404, "first", func(*conn.Request, *conn.Response) int { return 404 }},
		"/early": {410, "first", func(_ *conn.Request, w *conn.Response) int {
			w.SetStatus(410)
			return 0
		}},
		"/good": {200, "", func(*conn.Request, *conn.Response) int { return 200 }},
		"/whole": {404, "x", func(_ *conn.Request, w *conn.Response) int {
			w.WriteString("x")
			return 404
		}},
		"/set": {404, "x", func(_ *conn.Request, w *conn.Response) int {
			w.SetBody([]byte("x"))
			return 404
		}},
		"/reader": {404, "x", func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyReader(strings.NewReader("x"), -1)
			return 404
		}},
		"/relayed": {404, "", func(_ *conn.Request, w *conn.Response) int {
			w.Layer().Relay(404, "")
			return 404
		}},
		"/streamed": {404, "x", func(_ *conn.Request, w *conn.Response) int {
			w.SetStatus(404)
			w.WriteString("x")
			w.Flush()
			return 404
		}},
		"/panic":         {500, "first", func(*conn.Request, *conn.Response) int { panic("a test") }},
		"/panic-in-page": {404, "<!doctype", func(*conn.Request, *conn.Response) int { return 404 }},
		"/streamed-page": {404, "streamed", func(*conn.Request, *conn.Response) int { return 404 }},
		"/bad-page":      {500, "<!doctype", func(*conn.Request, *conn.Response) int { return 404 }},
		"/second": {404, "second", func(_ *conn.Request, w *conn.Response) int {
			w.Layer().OnError(page("second", true))
			return 404
		}},
		"/refused": {404, "first", func(_ *conn.Request, w *conn.Response) int {
			w.Layer().OnError(page("second", false))
			return 404
		}},
		"/cleared": {404, "first", func(_ *conn.Request, w *conn.Response) int {
			w.WriteString("x")
			w.Layer().Clear()
			return 404
		}},
		"/dropped": {404, "first", func(_ *conn.Request, w *conn.Response) int {
			w.Layer().Relay(404, "Gone away")
			w.SetBody([]byte("x"))
			w.Layer().DropBody()
			return 404
		}},
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			w.Layer().OnError(page("first", true))
			return ways[req.Path()].answer(req, w)
		}})
		s.Panics.Expect()
		for path, way := range ways {
			a := s.Request("GET "+path, nil, "")
			if a.StatusCode != way.status || !strings.HasPrefix(a.Text, way.body) ||
				way.body == "" && a.Text != "" {
				t.Errorf("%s: %s, %q", path, a.Status, a.Text)
			}
			want := ""
			if way.body == "first" || way.body == "second" {
				want = way.body
			}
			if a.Header.Get("Page") != want {
				t.Errorf("%s: %v", path, a.Header)
			}
		}
	}, plain, direct)
}

// TestFailedPage: a page that could not be made leaves nothing behind.
func TestFailedPage(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			w.Layer().OnError(func(req *conn.Request, w *conn.Response, _ int) bool {
				w.Layer().BeforeHead(func(_ *conn.Request, w *conn.Response, _ int) {
					w.Header().Set("Hook", "of the page")
				})
				w.SetMaxRate(1)
				w.Header().Set("Page", "x")
				w.AddTrailer("Page-Trailer", "x")
				if req.Path() == "/panic" {
					panic("a test")
				}
				return false
			})
			w.Layer().BeforeHead(func(_ *conn.Request, w *conn.Response, status int) {
				w.Header().Set("Hook", "of the answer")
			})
			return 404
		}})
		s.Panics.Expect()
		c := s.Dial()
		for _, path := range []string{"/", "/panic"} {
			a := c.Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			if a.StatusCode != 404 || !strings.HasPrefix(a.Text, "<!doctype") ||
				a.Header.Get("Hook") != "of the answer" ||
				a.Header.Get("Page") != "" || len(a.Trailer) != 0 {
				t.Errorf("%s: %s, %d bytes, %v, %v", path, a.Status, len(a.Text), a.Header, a.Trailer)
			}
		}
	}, plain, direct)
}

// TestInstead: a handler for another path sees no more of the request than is about that path, and
// the request is itself again afterwards.
func TestInstead(t *testing.T) {
	show := func(req *conn.Request, w *conn.Response) int {
		w.WriteString(req.Method() + " " + req.Target() + " " + req.Path() + "?" + req.RawQuery() + " " +
			req.Header().Get("A") + req.Header().Get("Range") + req.Header().Get("Content-Type") +
			req.Query().Get("q") + ";")
		return int(req.ContentLength())
	}
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		req.Query()
		if n := req.Layer().Instead("/other", w, show); n != 0 {
			t.Errorf("length %d", n)
		}
		if n := show(req, w); n != 3 {
			t.Errorf("length %d", n)
		}
		return 200
	}})
	fields := []string{"A: b", "Range: bytes=0-", "Content-Type: c/d", "Content-Length: 3"}
	a := s.Request("POST /a%20b?q=1", fields, "xyz")
	if want := "GET /other /other? b;POST /a%20b?q=1 /a b?q=1 bbytes=0-c/d1;"; a.Text != want {
		t.Errorf("%q, want %q", a.Text, want)
	}

	// Of a request that was rewritten, before and in between.
	s = start(t, direct, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		if err := req.Layer().Rewrite("/new?q=2"); err != nil {
			t.Error(err)
		}
		req.Layer().Instead("/other one", w, func(req *conn.Request, w *conn.Response) int {
			show(req, w)
			w.WriteString(conn.StandardURL(req) + ";")
			if err := req.Layer().Rewrite("/page?q=3"); err != nil {
				t.Error(err)
			}
			return show(req, w)
		})
		show(req, w)
		if n := req.Layer().Rewrites(); n != 1 {
			t.Errorf("%d rewrites", n)
		}
		return 200
	}})
	a = s.Request("GET /a?q=1", nil, "")
	if want := "GET /other%20one /other one? ;/other%20one;GET /other%20one /page?q=3 3;" +
		"GET /a?q=1 /new?q=2 2;"; a.Text != want {
		t.Errorf("%q, want %q", a.Text, want)
	}
}

// TestPageBehindDuplex: a page is made in the usual way, also if the handler has let body and
// answer move at once: reads wait, and so do writes.
func TestPageBehindDuplex(t *testing.T) {
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		w.Layer().OnError(func(req *conn.Request, w *conn.Response, _ int) bool {
			_ = w.Inform(103, nil)
			b, err := io.ReadAll(req.Body())
			if err != nil {
				t.Error(err)
			}
			w.Write(b)
			return true
		})
		req.Layer().Duplex()
		return 404
	}})
	c := s.Dial()
	send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n")
	if a := c.Answer("POST"); a.StatusCode != 103 {
		t.Fatal(a.Status)
	}
	send(t, c, "body")
	if a := c.Answer("POST"); a.StatusCode != 404 || a.Text != "body" {
		t.Errorf("%s %q", a.Status, a.Text)
	}
}
