package conn_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
)

const getAndClose = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

// TestBridgeTrailerNames: one that is no token is not sent, and those beside it are.
func TestBridgeTrailerNames(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			io.WriteString(w, "x")
			w.Header()[http.TrailerPrefix+
				"A: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"] = []string{"v"}
			w.Header()[http.TrailerPrefix+"A b"] = []string{"evil"}
			w.Header()[http.TrailerPrefix] = []string{"evil"}
			w.Header().Set(http.TrailerPrefix+"Good", "v")
		}))})
		got := s.Exchange(getAndClose)
		if strings.Contains(got, "evil") {
			t.Errorf("%q", got)
		}
		if a := parse(t, got, "GET")[0]; a.Text != "x" || len(a.Trailer) != 1 ||
			a.Trailer.Get("Good") != "v" {
			t.Errorf("%q, trailer %v", a.Text, a.Trailer)
		}
	})
}

// TestHijackWithBadFields: a 101 goes by the same rules as any other head.
func TestHijackWithBadFields(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		inner := mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusSwitchingProtocols)
			want := conn.ErrBadField
			if r.ProtoMajor == 2 { // which has no Hijack for it
				want = http.ErrNotSupported
			}
			if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, want) {
				t.Errorf("hijack: %v", err)
			}
		}))
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			resp.Header().Set("X", "a\r\nEvil: 1")
			return inner(req, resp)
		}})
		if got := s.Exchange(getAndClose); strings.Contains(got, "Evil") {
			t.Errorf("%q", got)
		}
	})
}

// TestHijackAfterFlush: flushed, a 101 has no framing either, and goes out once.
func TestHijackAfterFlush(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "raw")
			w.WriteHeader(http.StatusSwitchingProtocols)
			rc := http.NewResponseController(w)
			if err := rc.Flush(); err != nil {
				t.Errorf("flush: %v", err)
			}
			c, _, err := rc.Hijack()
			if err != nil {
				t.Errorf("hijack: %v", err)
				return
			}
			io.WriteString(c, "raw bytes")
			c.Close()
		}))})
		got := s.Exchange(get)
		head, body, _ := strings.Cut(got, "\r\n\r\n")
		if !strings.HasPrefix(head, "HTTP/1.1 101 ") ||
			!strings.Contains(head, "\r\nUpgrade: raw") ||
			strings.Contains(head, "Transfer-Encoding") ||
			strings.Contains(head, "Content-Length") || body != "raw bytes" {
			t.Errorf("%q", got)
		}
	}, http1...)
}

// TestSwitchWithoutHijack: a handler that answers 101 and returns ends the connection; what the
// client gets is still the handler's answer.
func TestSwitchWithoutHijack(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			_ *http.Request) {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "raw")
			w.WriteHeader(http.StatusSwitchingProtocols)
		}))})
		got := s.Exchange(get)
		head, rest, ok := strings.Cut(got, "\r\n\r\n")
		if !strings.HasPrefix(head, "HTTP/1.1 101 ") || !strings.Contains(head, "\r\nUpgrade: raw") ||
			!ok || rest != "" {
			t.Errorf("%q", got)
		}
		s.Idle()
	}, http1...)
}

// TestBridgeHeadKeepsTheDeclaredLength: whatever part of the body the handler makes.
func TestBridgeHeadKeepsTheDeclaredLength(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, r.URL.Path[1:])
		}))})
		c := s.Dial()
		for _, path := range []string{"/", "/12345"} {
			if a := c.Do("HEAD", "HEAD "+
				path+" HTTP/1.1\r\nHost: a\r\n\r\n"); a.ContentLength != 1000 || a.Close {
				t.Errorf("%s: %v", path, a.Response)
			}
		}
	})
}

// TestBridgeLengthFromTheFront: no more is sent than a Handler in front has announced, from a file
// or otherwise.
func TestBridgeLengthFromTheFront(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	must.Write(t, name, strings.Repeat("F", 50<<10))
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		inner := mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "a/b")
			f, err := os.Open(name)
			if err != nil {
				panic(err)
			}
			defer f.Close()
			switch r.URL.Path {
			case "/copy":
				io.Copy(struct{ io.Writer }{w}, f)
			case "/part":
				io.CopyN(w, f, 50<<10)
			default:
				io.Copy(w, f)
			}
		}))
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			resp.Header().Set("Content-Length", "5")
			return inner(req, resp)
		}})
		for _, path := range []string{"/", "/part", "/copy"} {
			c := s.Dial()
			send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"+get)
			got, _ := io.ReadAll(c.R)
			if strings.Count(string(got), "HTTP/1.1 ") > 1 || strings.Count(string(got), "F") > 5 {
				t.Errorf("%s: %q", path, clip(string(got)))
			}
		}
	})
}
