package cache_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/handlers/compress"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/compression"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// compressing serves h behind a cache and, further out, compression.
func compressing(t *testing.T, m modes.Mode, h conn.Handler) *cached {
	t.Helper()
	d := compress.Defaults
	policy := must.Get(compression.Policy(d.Encodings, *d.MinSize, d.Types, *d.Level))(t)
	c := &cached{store: open(t)}
	env := handlers.Env{Process: around.In(around.Context{Compression: policy})}
	layer := must.Get(cache.New(c.store, cache.Settings{}, env))(t)
	c.Server = module.Start(t, m, "/", compression.Middleware(policy)(layer(h)))
	return c
}

// TestCodedForms: what is kept is coded once for each coding, for those that accept it; ranges are
// of the answer as it is, and the tags of the forms differ.
func TestCodedForms(t *testing.T) {
	text := strings.Repeat("a rose is a rose is ", 2000)
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
			fields(w, "Cache-Control: max-age=100", `ETag: "v1"`, "Content-Type: text/plain")
			return w.Text(200, text)
		}}
		s := compressing(t, m, o.serve)
		read := func(fields ...string) (status int, coding, tag, body string, length int64) {
			t.Helper()
			a := s.Request("GET /", fields, "")
			if v := strings.Join(a.Header.Values("Vary"), ", "); a.StatusCode != 416 &&
				!strings.Contains(v, "Accept-Encoding") {
				t.Errorf("%v: Vary: %s", fields, v)
			}
			body = a.Text
			if coding = a.Header.Get("Content-Encoding"); coding == "gzip" {
				z := must.Get(gzip.NewReader(strings.NewReader(a.Text)))(t)
				body = string(must.Get(io.ReadAll(z))(t))
			}
			return a.StatusCode, coding, a.Header.Get("ETag"), body, a.ContentLength
		}
		// The first answers are encoded while they are sent; the form is made beside them.
		wait.Until(t, "the kept form", func() bool {
			status, coding, tag, body, length := read("Accept-Encoding: gzip")
			if status != 200 || coding != "gzip" || tag != `"v1-gzip"` || body != text {
				t.Fatalf("%d %s %s, %d bytes", status, coding, tag, len(body))
			}
			return length > 0
		})
		for _, tt := range []struct {
			fields []string
			want   string
		}{
			{nil, fmt.Sprint(`200  "v1" `, len(text))},
			{[]string{"Range: bytes=2-5"}, `206  "v1" 4`},
			{[]string{"Range: bytes=2-5", "Accept-Encoding: gzip"}, `206  "v1" 4`},
			{[]string{"Range: bytes=2-5", "Accept-Encoding: gzip", `If-Range: "v1-gzip"`},
				fmt.Sprint(`200 gzip "v1-gzip" `, len(text))},
			{[]string{`If-None-Match: "v1"`}, `304  "v1" 0`},
			{[]string{`If-None-Match: "v1-gzip"`, "Accept-Encoding: gzip"}, `304  "v1-gzip" 0`},
			{[]string{`If-None-Match: "v1-gzip"`}, fmt.Sprint(`200  "v1" `, len(text))},
		} {
			status, coding, tag, body, _ := read(tt.fields...)
			if got := fmt.Sprint(status, " ", coding, " ", tag, " ", len(body)); got != tt.want {
				t.Errorf("%v: %s, want %s", tt.fields, got, tt.want)
			}
		}
		if n := o.n.Load(); n != 1 {
			t.Errorf("%d requests to the handler", n)
		}
	}, modes.Direct, modes.Several, modes.HTTP2)
}

// TestCodedHitIsCheap: a hit of a coded form allocates nothing.
func TestCodedHitIsCheap(t *testing.T) {
	text := strings.Repeat("a rose is a rose is ", 2000)
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100", "Content-Type: text/plain")
		return w.Text(200, text)
	}}
	s := compressing(t, modes.Direct, o.serve)
	wait.Until(t, "the kept form", func() bool {
		return s.Request("GET /", []string{"Accept-Encoding: gzip"}, "").ContentLength > 0
	})
	if n := s.Allocs("GET / HTTP/1.1\r\nHost: test.example\r\nAccept-Encoding: gzip\r\n\r\n"); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestCodedByTheOrigin: what an application has coded is kept as it is, by Vary.
func TestCodedByTheOrigin(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100", "Vary: Accept-Encoding", "Content-Type: text/plain")
		if strings.Contains(req.Header().Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			return w.Text(200, strings.Repeat("coded ", 1000))
		}
		return w.Text(200, strings.Repeat("plain ", 1000))
	}}
	s := compressing(t, modes.Direct, o.serve)
	for i, accepts := range []string{"gzip", "identity", "gzip", "identity"} {
		a := s.Request("GET /", []string{"Accept-Encoding: " + accepts}, "")
		coded := a.Header.Get("Content-Encoding") == "gzip"
		if coded != (accepts == "gzip") || strings.HasPrefix(a.Text, "coded") != coded {
			t.Errorf("step %d: %v, %.10s", i, a.Header, a.Text)
		}
	}
	if n := o.n.Load(); n != 2 {
		t.Errorf("%d requests to the handler", n)
	}
}
