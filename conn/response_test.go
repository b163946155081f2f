package conn_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/must"
)

// noise is what bodies are made of: text in which a lost, doubled or swapped piece shows.
var noise = sync.OnceValue(func() []byte {
	b := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
})

// sources are handlers that answer with the first n bytes of noise, n being the query, in every way
// there is.
func sources(t testing.TB) map[string]conn.Handler {
	name := filepath.Join(t.TempDir(), "noise")
	must.Do(t, os.WriteFile(name, append([]byte("some bytes before"), noise()...),
		0o600))
	of := func(f func(w *conn.Response, body []byte) error) conn.Handler {
		return func(req *conn.Request, w *conn.Response) int {
			n, err := strconv.Atoi(req.RawQuery())
			if err != nil {
				return 400
			}
			if err := f(w, noise()[:n]); err != nil {
				return 500
			}
			return 200
		}
	}
	pieces := func(body []byte, size int, f func([]byte) error) error {
		for len(body) > 0 {
			n := min(size, len(body))
			if err := f(body[:n]); err != nil {
				return err
			}
			body = body[n:]
		}
		return nil
	}
	return map[string]conn.Handler{
		"/write": of(func(w *conn.Response, body []byte) error {
			_, err := w.Write(body)
			return err
		}),
		"/pieces": of(func(w *conn.Response, body []byte) error {
			return pieces(body, 1777, func(p []byte) error {
				_, err := w.WriteString(string(p))
				return err
			})
		}),
		"/flush": of(func(w *conn.Response, body []byte) error {
			return pieces(body, 99_999, func(p []byte) error { w.Write(p); return w.Flush() })
		}),
		"/declared": of(func(w *conn.Response, body []byte) error {
			w.Header().Set("content-length", strconv.Itoa(len(body)))
			return pieces(body, 50_001, func(p []byte) error { _, err := w.Write(p); return err })
		}),
		"/bytes": of(func(w *conn.Response, body []byte) error { w.SetBody(body); return nil }),
		"/reader": of(func(w *conn.Response, body []byte) error {
			w.SetBodyReader(bytes.NewReader(body), int64(len(body)))
			return nil
		}),
		"/unknown": of(func(w *conn.Response, body []byte) error {
			w.SetBodyReader(iotest.DataErrReader(bytes.NewReader(body)), -1)
			return nil
		}),
		"/file": of(func(w *conn.Response, body []byte) error {
			f, err := os.Open(name)
			if err == nil {
				w.SetBodyFile(f, int64(len("some bytes before")), int64(len(body)))
			}
			return err
		}),
	}
}

func TestEveryBodyOfEverySize(t *testing.T) {
	t.Parallel()
	h := sources(t)
	largest := 3 << 20
	if invariants.Enabled { // which makes many small writes of it
		largest = 1 << 20
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: byPath(h)})
		for path := range h {
			c := s.Dial()
			for _, size := range []int{0, 1, 13, 4095, 4096, 16_384, 32_767, 32_768, 32_769, 70_000,
				largest} {
				// Twice in one go, so that the first one's end is where the second one begins.
				target := fmt.Sprint(path, "?", size)
				one := "GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n"
				send(t, c, one+one)
				for _, a := range answers(t, c.R, "GET", "GET") {
					if a.StatusCode != 200 || a.Text != string(noise()[:size]) {
						t.Fatalf("%s: %s with %d bytes, which are not the ones", target, a.Status,
							len(a.Text))
					}
				}
				if size == 13 || size == 70_000 {
					a := parse(t, s.Exchange("GET "+target+" HTTP/1.0\r\n\r\n"), "GET")[0]
					if a.Text != string(noise()[:size]) || len(a.TransferEncoding) > 0 || !a.Close {
						t.Errorf("%s to a 1.0 client: %v with %d bytes", target, a.Response,
							len(a.Text))
					}
				}
			}
		}
	}, http1...)
}

// TestSlowReadersLoseNothing: a tiny receive buffer makes the server wait in every write, while
// another client of the same loop is served.
func TestSlowReadersLoseNothing(t *testing.T) {
	t.Parallel()
	h := sources(t)
	h["/"] = hello
	size := 1 << 20
	if invariants.Enabled {
		// Pieces of odd sizes can leave the window a few bytes short of a segment for good, and
		// then the kernel sends on its persist timer alone, 2 KiB every 200 ms.
		size = 100 << 10
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: byPath(h)})
		var wg sync.WaitGroup
		for path := range h {
			if path == "/" {
				continue
			}
			c := s.DialSmall()
			send(t, c, fmt.Sprintf("GET %s?%d HTTP/1.1\r\nHost: a\r\n\r\n", path, size))
			wg.Go(func() {
				resp, err := http.ReadResponse(c.R, nil)
				if err != nil {
					t.Error(path, err)
					return
				}
				got, err := io.ReadAll(iotest.HalfReader(resp.Body))
				if err != nil || !bytes.Equal(got, noise()[:size]) {
					t.Errorf("%s: %d bytes, %v", path, len(got), err)
				}
			})
		}
		quick := s.Dial()
		for range 20 {
			quick.Do("GET", get)
		}
		wg.Wait()
	}, plain, direct, overTLS)
}

func TestWrongLengthsCutTheConnection(t *testing.T) {
	declare := func(n string, f func(w *conn.Response)) conn.Handler {
		return func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("Content-Length", n)
			_ = w.Flush()
			f(w)
			return 200
		}
	}
	h := byPath(map[string]conn.Handler{
		"/":     hello,
		"/less": declare("10", func(w *conn.Response) { w.WriteString("12345") }),
		"/none": declare("10", func(w *conn.Response) {}),
		"/more": declare("5", func(w *conn.Response) { w.WriteString("123456") }),
		"/reader": func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyReader(strings.NewReader("12345"), 10)
			return 200
		},
		"/failing": func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyReader(io.MultiReader(strings.NewReader("12345"),
				iotest.ErrReader(io.ErrNoProgress)), -1)
			return 200
		},
		"/late": func(_ *conn.Request, w *conn.Response) int {
			w.Flush()
			w.SetBody([]byte("too late"))
			return 200
		},
		"/file": func(_ *conn.Request, w *conn.Response) int {
			f, err := os.Open("doc.go")
			if err != nil {
				return 404
			}
			w.SetBodyFile(f, 0, 1<<20)
			return 200
		},
	})
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: h})
		for _, path := range []string{"/less", "/none", "/more", "/reader", "/failing", "/late",
			"/file"} {
			c := s.Dial()
			send(t, c, get+"GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"+get)
			if a := c.Answer("GET"); a.Text != "Hello, world!" {
				t.Errorf("%s: the answer before it: %s", path, a.Status)
			}
			resp, err := http.ReadResponse(c.R, nil)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if text, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("%s: the client takes %q for all there is", path, text)
			}
			if left, _ := io.ReadAll(c.R); strings.Contains(string(left), "HTTP/1.1") {
				t.Errorf("%s: and then %q", path, left)
			}
			c.Close()
		}
	}, plain, direct, overTLS)
}

func TestStatusBehindTheHeadIsIgnoredAndLoggedOnce(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			resp.WriteString("part")
			resp.Flush()
			if !resp.HeadSent() {
				return 500
			}
			status, _ := strconv.Atoi(req.RawQuery())
			return status
		}})
		c := s.Dial()
		for i, status := range []int{200, 0, 404} {
			a := c.Do("GET", fmt.Sprintf("GET /?%d HTTP/1.1\r\nHost: a\r\n\r\n", status))
			if a.StatusCode != 200 || a.Text != "part" {
				t.Errorf("%d: %s %q", status, a.Status, a.Text)
			}
			if got := strings.Count(s.Log.String(), "status ignored"); got != i/2 {
				t.Errorf("%d: %d lines:\n%s", status, got, s.Log)
			}
		}
	}, plain, direct)
}

func TestStatuses(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			status, _ := strconv.Atoi(req.RawQuery())
			return status
		}})
		c := s.Dial()
		for _, row := range []struct{ returned, want int }{{0, 200}, {201, 201}, {299, 299},
			{404, 404}, {418, 418}, {499, 499}, {599, 599}, {999, 999}, {100, 500}, {101, 500},
			{-1, 500}, {1000, 500}} {
			a := c.Do("GET", fmt.Sprintf("GET /?%d HTTP/1.1\r\nHost: a\r\n\r\n", row.returned))
			if a.StatusCode != row.want {
				t.Errorf("%d: %s", row.returned, a.Status)
			}
			if page := strings.Contains(a.Text,
				"<h1>"+strconv.Itoa(row.want)); page != (row.want >= 400) {
				t.Errorf("%d: body %q", row.returned, a.Text)
			}
		}
	}, plain)
}
