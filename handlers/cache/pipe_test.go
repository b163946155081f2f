package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestPassedOn: an answer of a handler that is not kept takes nothing of the store while it comes.
// Its client holds up the handler, and nobody else; when it leaves, the handler ends.
func TestPassedOn(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		const most = 64 << 20
		var wrote atomic.Int64
		ended := make(chan error, 1)
		s := start(t, m, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
			fields(w, "Cache-Control: private")
			if req.Path() != "/x" {
				return w.Text(200, "other")
			}
			piece := make([]byte, 60_000)
			for wrote.Load() < most {
				if _, err := w.Write(piece); err != nil {
					ended <- err
					return 200
				}
				wrote.Add(int64(len(piece)))
			}
			ended <- nil
			return 200
		})
		before := s.stats()
		c := s.DialSmall()
		c.Send(ask)
		resp := must.Get(http.ReadResponse(c.R, nil))(t)
		if _, err := io.CopyN(io.Discard, resp.Body, 200_000); err != nil {
			t.Error(err)
		}
		s.Settle() // it waits for its client
		if n := s.stats(); n.Filling != 0 || n.MemoryBytes != before.MemoryBytes {
			t.Errorf("%+v while it comes", n)
		}
		if a, _ := get(t, s, "/other"); a.Text != "other" {
			t.Errorf("%q", a.Text)
		}
		if n := wrote.Load(); n >= most {
			t.Errorf("the handler has written %d bytes", n)
		}
		c.Reset()
		if err := <-ended; err == nil {
			t.Error("the handler goes on for nobody")
		}
	}, modes.Direct, modes.Several)
}

// TestPassedOnEnds: an answer that is not kept comes whole, with what is behind its body, or the
// client sees that it is cut; and one that is there at once has its length.
func TestPassedOnEnds(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		text := strings.Repeat("0123456789", 20_000)
		o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
			fields(w, "Cache-Control: private")
			switch req.Path() {
			case "/short":
				return w.Text(200, text[:1000])
			case "/long":
				return w.Text(200, text)
			case "/empty":
				return 404
			}
			w.AddTrailer("X-Sum", "1")
			_, _ = w.Write([]byte(text))
			if req.Path() == "/cut" {
				w.Abort()
			}
			return 200
		}}
		s := start(t, m, cache.Settings{}, o.serve)
		for path, want := range map[string]string{"/short": "200 1000 1000 map[]",
			"/long": "200 200000 200000 map[]", "/empty": "404", "/pieces": "200 -1 200000 map[X-Sum:[1]]",
			"/cut": "cut"} {
			c := s.Dial()
			c.Send("GET " + path + " HTTP/1.1\r\nHost: test.example\r\n\r\n")
			resp := must.Get(http.ReadResponse(c.R, nil))(t)
			body, err := io.ReadAll(resp.Body)
			got := fmt.Sprint(resp.StatusCode, " ", resp.ContentLength, " ", len(body), " ", resp.Trailer)
			switch {
			case err != nil:
				got = "cut"
			case resp.StatusCode == 404:
				got = "404"
			}
			if got != want || strings.Contains(resp.Header.Get("Cache-Status"), "stored") {
				t.Errorf("%s: %s, want %s; %v", path, got, want, resp.Header)
			}
		}
	}, modes.Direct, modes.OverTLS)
}

// TestNobodyIsLeft: a client leaves before the head of an answer that is not kept, and its handler
// waits for nobody, whether it learns of that or not.
func TestNobodyIsLeft(t *testing.T) {
	head := new(loop.Promise[struct{}])
	begun, ended := make(chan struct{}, 1), make(chan struct{})
	s := start(t, modes.Direct, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
		req.KeepWaiting(true)
		begun <- struct{}{}
		_, _ = head.Await(req.Thread, wait.Patience)
		fields(w, "Cache-Control: private")
		for range 100 {
			if _, err := w.Write(make([]byte, 50_000)); err != nil {
				close(ended)
				return 200
			}
		}
		return 200
	})
	c := s.Dial()
	c.Send(ask)
	<-begun
	c.Reset()
	s.Settle()
	head.Resolve(struct{}{})
	select {
	case <-ended:
	case <-time.After(wait.Patience):
		t.Error("the handler waits for nobody")
	}
}
