package module

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
)

// Replaced is a middleware of net/http that puts another body in the place of a request's.
type Replaced struct {
	Name       string
	Middleware func(next http.Handler) http.Handler

	// Want is what the body "0123456789" becomes. "": it fails.
	Want string

	// Stalls gets an element when a read begins to wait, which waits for one of GoOn. They are nil if
	// no read waits.
	Stalls, GoOn chan bool
}

// Replacing returns middleware for tests of modules that send bodies on.
func Replacing() []Replaced {
	body := func(make func(r io.Reader) io.Reader) func(next http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ContentLength != 0 {
					r.Body = struct {
						io.Reader
						io.Closer
					}{make(r.Body), r.Body}
				}
				next.ServeHTTP(w, r)
			})
		}
	}
	const sent = "0123456789"
	large := strings.Repeat("large ", 40<<10)
	stalls, goOn := make(chan bool, 1), make(chan bool)
	return []Replaced{
		{Name: "a byte at a time", Want: sent, Middleware: body(iotest.OneByteReader)},
		{Name: "data with the end", Want: sent, Middleware: body(iotest.DataErrReader)},
		{Name: "empty reads", Want: sent, Middleware: body(func(r io.Reader) io.Reader {
			empty := true
			return reader(func(p []byte) (int, error) {
				if empty = !empty; !empty {
					return 0, nil
				}
				return r.Read(p[:min(3, len(p))])
			})
		})},
		{Name: "longer", Want: sent + large, Middleware: body(func(r io.Reader) io.Reader {
			return io.MultiReader(r, strings.NewReader(large))
		})},
		{Name: "longer, and slow", Want: sent + large[:1000],
			Middleware: body(func(r io.Reader) io.Reader {
				return iotest.OneByteReader(io.MultiReader(r, strings.NewReader(large[:1000])))
			})},
		{Name: "shorter", Want: sent[:4], Middleware: body(func(r io.Reader) io.Reader {
			return io.LimitReader(r, 4)
		})},
		{Name: "shorter, and read to the end", Want: sent[6:],
			Middleware: body(func(r io.Reader) io.Reader {
				skipped := false
				return reader(func(p []byte) (int, error) {
					if !skipped {
						skipped = true
						if _, err := io.CopyN(io.Discard, r, 6); err != nil {
							return 0, err
						}
					}
					return r.Read(p)
				})
			})},
		{Name: "fails at once", Middleware: body(func(io.Reader) io.Reader {
			return iotest.ErrReader(errReplaced)
		})},
		{Name: "fails midway", Middleware: body(func(r io.Reader) io.Reader {
			return io.MultiReader(io.LimitReader(r, 3), iotest.ErrReader(errReplaced))
		})},
		{Name: "fails behind the length", Middleware: body(func(r io.Reader) io.Reader {
			return io.MultiReader(r, strings.NewReader(large), iotest.ErrReader(errReplaced))
		})},
		{Name: "brings nothing", Middleware: body(func(io.Reader) io.Reader {
			return reader(func([]byte) (int, error) { return 0, nil })
		})},
		{Name: "stalls", Want: sent, Stalls: stalls, GoOn: goOn,
			Middleware: body(func(r io.Reader) io.Reader {
				return io.MultiReader(io.LimitReader(r, 3), reader(func([]byte) (int, error) {
					stalls <- true
					<-goOn
					return 0, io.EOF
				}), r)
			})},
	}
}

var errReplaced = errors.New("the middleware's body has failed")

type reader func(p []byte) (int, error)

// Read implements io.Reader.
func (r reader) Read(p []byte) (int, error) { return r(p) }

// SendReplaced sends requests for target through each middleware of Replacing, on the loop and off
// it, to the module that serve makes; serve also returns the module's log. whole gets each body
// that has reached the upstream to its end.
func SendReplaced(t *testing.T, m modes.Mode, target string, whole <-chan string,
	serve func(buffering bool) (conn.Handler, fmt.Stringer)) {
	for name, form := range map[string]func(func(http.Handler) http.Handler) func(conn.Handler,
	) conn.Handler{"off the loop": conn.HTTPMiddleware, "on the loop": conn.HTTPMiddlewareOnLoop} {
		for _, r := range Replacing() {
			if r.Stalls != nil && name == "on the loop" {
				continue // where nothing may wait
			}
			for _, buffering := range []bool{false, true} {
				h, log := serve(buffering)
				s := Start(t, m, "/", form(r.Middleware)(h))
				for framing, body := range map[string]string{"Content-Length: 10": "0123456789",
					"Transfer-Encoding: chunked": "4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n"} {
					row := fmt.Sprint(name, ", ", r.Name, ", ", buffering, ", ", framing)
					t.Run(row, func(t *testing.T) {
						r.send(t, s, target, framing+"\r\n\r\n"+body, whole, log)
					})
				}
			}
		}
	}
}

// send sends one request, whose body r replaces.
func (r *Replaced) send(t *testing.T, s *server.Server, target, rest string, whole <-chan string,
	log fmt.Stringer) {
	c := s.Dial()
	defer c.Close()
	c.Send("POST " + target + " HTTP/1.1\r\nHost: a\r\n" + rest)
	if r.Stalls != nil {
		<-r.Stalls
		if a := s.Request("GET "+target, nil, ""); a.Text != "ok" {
			t.Errorf("meanwhile: %d %q", a.StatusCode, a.Text)
		}
		r.GoOn <- true
	}
	a := c.Answer("POST")
	switch {
	case r.Want == "":
		if a.StatusCode < 400 {
			t.Errorf("%d %q", a.StatusCode, a.Text)
		}
	case a.StatusCode != 200:
		t.Errorf("%d %q; log: %s", a.StatusCode, a.Text, log)
	default:
		if got := <-whole; got != r.Want {
			t.Errorf("the upstream got %q, want %q", server.Clip(got), server.Clip(r.Want))
		}
	}
	if len(whole) > 0 {
		t.Errorf("the upstream got %q as whole", server.Clip(<-whole))
	}
}
