package conn_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/conn"
)

// cutting are handlers that cut their answer within its body, one for each way.
var cutting = map[string]conn.Handler{
	"/reader": func(_ *conn.Request, w *conn.Response) int {
		w.SetBodyReader(io.MultiReader(strings.NewReader("part"), lost{}), 100)
		return 200
	},
	"/endless": func(_ *conn.Request, w *conn.Response) int {
		w.SetBodyReader(io.MultiReader(strings.NewReader("part"), lost{}), -1)
		return 200
	},
	"/short": func(_ *conn.Request, w *conn.Response) int {
		w.Header().Set("Content-Length", "100")
		w.WriteString("part")
		_ = w.Flush()
		return 200
	},
	"/panic": func(_ *conn.Request, w *conn.Response) int {
		w.WriteString("part")
		_ = w.Flush()
		panic(http.ErrAbortHandler)
	},
	"/http": conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "part")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})),
}

type lost struct{}

func (lost) Read([]byte) (int, error) { return 0, errors.New("the source is gone") }

// TestCutLeavesTheAnswerBefore: a cut answer does not take away the complete one in front of it,
// although the client goes on sending, and the client can tell that the second one is cut.
func TestCutLeavesTheAnswerBefore(t *testing.T) {
	t.Parallel()
	first := string(noise()[:10_000]) // more than a small window
	run(t, func(t *testing.T, m mode) {
		ways := map[string]conn.Handler{
			"/": func(_ *conn.Request, w *conn.Response) int { w.WriteString(first); return 200 },
		}
		for path, h := range cutting {
			ways[path] = h
		}
		s := start(t, m, conn.Config{Handler: byPath(ways)})
		for path := range cutting {
			c := s.DialSmall()
			send(t, c, fmt.Sprintf("%sPOST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n%s",
				get, path, noise()[:10_000]))
			s.Settle()
			if a := c.Answer("GET"); a.Text != first {
				t.Fatalf("%s: in front %d bytes", path, len(a.Text))
			}
			resp, err := http.ReadResponse(c.R, nil)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			b, err := io.ReadAll(resp.Body)
			if string(b) != "part" || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: cut with %q, %v", path, b, err)
			}
			c.Close()
		}
	}, plain, direct, overTLS)
}

// TestCutOfEndlessBody: where only the end of the connection ends the body, a cut is a reset.
func TestCutOfEndlessBody(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: byPath(cutting)})
		for _, path := range []string{"/endless", "/panic", "/http"} {
			c := s.Dial()
			send(t, c, "GET "+path+" HTTP/1.0\r\n\r\n")
			if b, err := io.ReadAll(c.R); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s: %q, %v", path, b, err)
			}
			c.Close()
		}
	}, plain, direct)
}
