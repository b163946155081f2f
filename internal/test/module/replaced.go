package module

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing/iotest"
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
