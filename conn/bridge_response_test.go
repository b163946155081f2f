package conn_test

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
)

// respond are handlers that answer in all ways there are.
var respond = map[string]func(w http.ResponseWriter, r *http.Request){
	"/nothing": func(w http.ResponseWriter, r *http.Request) {},
	"/hello":   func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "Hello") },
	"/html": func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "\n<ht")
		io.WriteString(w, "ml>")
	},
	"/gif": func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("GIF89a\x00")) },
	"/untyped": func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		w.Write([]byte("x"))
	},
	"/encoded": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "x")
		w.Write([]byte("x"))
	},
	"/notfound": http.NotFound,
	"/empty404": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404) },
	"/redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "other", 303) },
	"/204": func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(204)
		fmt.Fprint(w, "no")
	},
	"/304": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "a/b")
		w.Header().Set("ETag", `"e"`)
		w.WriteHeader(304)
		if _, err := w.Write([]byte("no")); err != http.ErrBodyNotAllowed {
			panic(err)
		}
	},
	"/unknown": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(599) },
	"/twice": func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(201)
		w.Header().Set("X", "too late")
		w.WriteHeader(500)
		io.WriteString(w, "created")
	},
	"/implicit": func(w http.ResponseWriter, r *http.Request) {
		w.Write(nil)
		w.Header().Set("X", "too late")
		w.WriteHeader(500)
	},
	"/fields": func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["lower"] = []string{"1", "2"}
		h.Set("Split", "a\r\nSet-Cookie: b\nc")
		h["Bad name"] = []string{"x"}
		h["Bad:"] = []string{"x"}
		h[""] = []string{"x"}
		h.Set("Server", "own")
		h.Set("Empty", "")
		h["None"] = nil
	},
	"/date":   func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Date", "then") },
	"/undate": func(w http.ResponseWriter, r *http.Request) { w.Header()["Date"] = nil },
	"/close": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
	},
	"/length": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		if n, err := io.WriteString(w, "12345"); n != 5 || err != nil {
			panic(err)
		}
		if n, err := io.WriteString(w, "6"); n != 0 || err != http.ErrContentLength {
			panic(err)
		}
	},
	"/short": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		io.WriteString(w, "123")
	},
	"/known": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		if r.Method != "HEAD" {
			io.WriteString(w, "12345")
		}
	},
	"/flush": func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(202)
		w.(http.Flusher).Flush()
		io.WriteString(w, "<html>late")
		w.WriteHeader(500)
	},
	"/flushed": func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "<html>")
		w.(http.Flusher).Flush()
		io.WriteString(w, "late")
	},
	"/large": func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(201)
		for range 100 {
			io.WriteString(w, strings.Repeat("0123456789", 333))
		}
	},
	"/one": func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Repeat("<b>", 100<<10))
	},
	"/readfrom": func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(w, strings.NewReader(strings.Repeat("x", 100<<10)))
		if n != 100<<10 || err != nil {
			panic(err)
		}
	},
	"/early": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a>")
		w.Header().Set("Content-Length", "3")
		w.WriteHeader(103)
		w.Header().Add("Link", "</b>")
		w.WriteHeader(103)
		io.WriteString(w, "abc")
	},
	"/many": func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMinor > 0 {
			for range 100 {
				w.WriteHeader(102)
			}
		}
	},
	"/continue": func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(100)
		io.WriteString(w, "x")
	},
	"/trailer": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "A, b")
		w.Header().Add("Trailer", "Never")
		io.WriteString(w, "body")
		w.Header().Set("A", "1")
		w.Header()["B"] = []string{"2", "3\n"}
	},
	"/latetrailer": func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Repeat("x", 50<<10))
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"a", "1")
		w.Header().Set("B", "2")
	},
	"/toomuch": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "12345")
		if _, err := io.WriteString(w, "1234567890"); err != http.ErrContentLength {
			panic(err)
		}
	},
	"/template": func(w http.ResponseWriter, r *http.Request) {
		for _, s := range []string{"", "  ", "\n", "<!DOCTYPE ", "html>"} {
			io.WriteString(w, s)
		}
	},
}

// TestBridgeResponse: a client sees of an answer what it would see of net/http's.
func TestBridgeResponse(t *testing.T) {
	t.Parallel()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		respond[r.URL.Path](w, r)
	})
	addr := reference(t, h)
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(h)})
		for _, path := range slices.Sorted(maps.Keys(respond)) {
			for _, form := range []string{"GET %s HTTP/1.1", "HEAD %s HTTP/1.1",
				"GET %s HTTP/1.0"} {
				line := fmt.Sprintf(form, path)
				method, _, _ := strings.Cut(line, " ")
				switch line {
				case "GET /early HTTP/1.0", "GET /continue HTTP/1.0":
					continue // net/http sends interim responses to clients that do not know them
				case "GET /trailer HTTP/1.0", "HEAD /trailer HTTP/1.1":
					// it closes for a trailer that cannot be sent; and does not tell of chunks in
					// answer to HEAD
					continue
				}
				raw := line + "\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"
				c := must.Get(net.Dial("tcp", addr))(t)
				want := ask(t, c, method, raw)
				got := ask(t, s.Dial(), method, raw)
				for _, a := range []answer{got, want} {
					if date := a.Header.Get("Date"); date != "" && date != "then" {
						a.Header.Del("Date")
						a.Header.Set("X-Dated", "yes")
					}
				}
				sameAsReference(t, line, got, want)
			}
		}
	}, http1...)
}

// TestBridgeKnownLength: a body that fits the buffers is not chunked, and HEAD tells the same.
func TestBridgeKnownLength(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			for range 20 {
				w.Write(make([]byte, 1000))
			}
		}))})
		c := s.Dial()
		for _, method := range []string{"GET", "HEAD", "GET"} {
			if a := c.Do(method,
				method+" / HTTP/1.1\r\nHost: a\r\n\r\n"); a.ContentLength != 20000 {
				t.Errorf("%s: %v", method, a.Response)
			}
		}
	})
}

// TestBridgeComplains: mistakes of a handler are logged with the place where they were made.
func TestBridgeComplains(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			respond["/twice"](w, r)
		}))})
		s.Dial().Do("GET", get)
		logged(s, "superfluous WriteHeader", "bridge_response_test.go:")
	})
}

// logged waits for a line in the log that contains all of these.
func logged(s *site, parts ...string) {
	s.T.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		for line := range strings.Lines(s.Log.String()) {
			if !slices.ContainsFunc(parts,
				func(p string) bool { return !strings.Contains(line, p) }) {
				return
			}
		}
		if time.Now().After(end) {
			s.T.Fatalf("no line of the log has %q:\n%s", parts, s.Log)
		}
	}
}
