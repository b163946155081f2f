package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestNarrowed: a request for a part, or with a condition, that misses has the application asked
// once, for all of the answer, and gets what it has asked for of that; whether the answer is kept
// or not, at once or in pieces, over each protocol.
func TestNarrowed(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		for _, size := range []int{1000, 100 << 10, 3 << 20} {
			text := strings.Repeat("0123456789", size/10)
			for _, control := range []string{"max-age=100", "private"} {
				for _, how := range []string{"declared", "unknown", "reader"} {
					if size > 2<<20 && (control != "private" || how != "declared") {
						continue // it is not kept either
					}
					testNarrowed(t, m, text, control, how, true)
					testNarrowed(t, m, text, control, how, false)
				}
			}
		}
	}, modes.Direct, modes.OverTLS, modes.HTTP2)
}

func testNarrowed(t *testing.T, m modes.Mode, text, control, how string, buffering bool) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: "+control, `ETag: "1"`, "Content-Type: text/plain")
		if how == "reader" {
			w.SetBodyReader(strings.NewReader(text), int64(len(text)))
			return 200
		}
		if how == "declared" {
			fields(w, fmt.Sprint("Content-Length: ", len(text)))
		}
		for rest := text; rest != ""; {
			n := min(len(rest), 50_000)
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				break
			}
			rest = rest[n:]
		}
		return 200
	}}
	s := startAs(t, m, cache.Settings{}, o.serve, buffering)
	kept := control != "private"
	if !buffering && kept && how == "unknown" {
		return // it may be read to its end before the client's head goes out
	}
	known := how != "unknown" || len(text) <= 32<<10
	end := len(text) - 1
	for i, tt := range []struct {
		field  string
		status int
		text   string
		spread string
	}{
		{"Range: bytes=10-19", 206, text[10:20], fmt.Sprintf("bytes 10-19/%d", len(text))},
		{fmt.Sprintf("Range: bytes=900-%d", end), 206, text[900:],
			fmt.Sprintf("bytes 900-%d/%d", end, len(text))},
		{"Range: bytes=-1", 206, text[end:], fmt.Sprintf("bytes %d-%d/%d", end, end, len(text))},
		{fmt.Sprintf("Range: bytes=%d-", len(text)), 416, "", fmt.Sprintf("bytes */%d", len(text))},
		{"Range: bytes=0-1,4-5", 200, text, ""},
		{"Range: bytes=0-1\r\nIf-Range: \"0\"", 200, text, ""},
		{`If-None-Match: "1"`, 304, "", ""},
		{`If-None-Match: "0"`, 200, text, ""},
	} {
		path := fmt.Sprint("/", i)
		what := fmt.Sprintf("%d bytes, %s, %s, %.20s", len(text), control, how, tt.field)
		if !known && strings.HasPrefix(tt.field, "Range") {
			tt.status, tt.text, tt.spread = 200, text, ""
		}
		asked := o.n.Load()
		a := s.Request("GET "+path, strings.Split(tt.field, "\r\n"), "")
		if a.StatusCode != tt.status || a.Text != tt.text || a.Header.Get("Content-Range") != tt.spread {
			t.Errorf("%s: %d, %d bytes, %q; want %d, %d, %q", what, a.StatusCode, len(a.Text),
				a.Header.Get("Content-Range"), tt.status, len(tt.text), tt.spread)
		}
		if n := o.n.Load() - asked; n != 1 || *o.seen.Load() != "GET   " {
			t.Errorf("%s: %d requests to the handler, the last one %q", what, n, *o.seen.Load())
		}
		if !kept {
			continue
		}
		wait.Until(t, "the answer is kept", func() bool { return s.stats().Filling == 0 })
		if a, said := get(t, s, path); a.Text != text || !strings.Contains(said, "; hit") {
			t.Errorf("%s: then %d bytes, %s", what, len(a.Text), a.Header.Get("Cache-Status"))
		}
	}
}

// TestNarrowedLeaves: a client that has got its part does not wait for the rest, nor does it end
// the request with its leaving. Of what is not kept, the application makes no more than the part.
func TestNarrowedLeaves(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		release := make(chan struct{})
		s := front(t, m, cache.Settings{}, func(w http.ResponseWriter, r *http.Request) {
			cacheable(w)
			w.Header().Set("Content-Length", fmt.Sprint(2*half))
			_, _ = io.WriteString(w, strings.Repeat("a", half))
			w.(http.Flusher).Flush()
			<-release
			_, _ = io.WriteString(w, strings.Repeat("b", half))
		}, nil)
		c := s.Dial()
		c.Send(strings.TrimSuffix(ask, "\r\n") + "Range: bytes=0-9\r\n\r\n")
		resp := must.Get(http.ReadResponse(c.R, nil))(t)
		if text, err := io.ReadAll(resp.Body); string(text) != "aaaaaaaaaa" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		c.Close()
		s.Settle()
		close(release)
		wait.Until(t, "the answer is kept", func() bool { return s.stats().Fills == 1 })
		if a, _ := get(t, &s.cached, "/x"); a.Text != whole || s.asked.Load() != 1 {
			t.Errorf("%d bytes, %d requests", len(a.Text), s.asked.Load())
		}
	}, modes.Direct, modes.Several)

	ended := make(chan struct{})
	s := front(t, modes.Direct, cache.Settings{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "private")
		if r.URL.Path != "/x" {
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(1<<40))
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				close(ended)
				return
			}
		}
	}, nil)
	c := s.Dial()
	c.Send(strings.TrimSuffix(ask, "\r\n") + "Range: bytes=100000-200000\r\n\r\n")
	resp := must.Get(http.ReadResponse(c.R, nil))(t)
	n, err := io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != 206 || n != 100001 || err != nil {
		t.Errorf("%d, %d bytes, %v", resp.StatusCode, n, err)
	}
	select {
	case <-ended:
	case <-time.After(wait.Patience):
		t.Error("the application goes on for nobody")
	}
	c.Send("GET /other HTTP/1.1\r\nHost: test.example\r\n\r\n")
	if resp, err = http.ReadResponse(c.R, nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("the connection goes on: %v, %v", resp, err)
	}
}
