package compress_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/compress"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

func TestMain(m *testing.M) { leak.Main(m) }

func middleware(t testing.TB, change func(*compress.Settings)) handlers.Middleware {
	t.Helper()
	s := compress.Defaults
	if change != nil {
		change(&s)
	}
	return must.Get(s.Middleware())(t)
}

func start(t testing.TB, m modes.Mode, h conn.Handler) *server.Server {
	return module.Start(t, m, "/", middleware(t, nil)(h))
}

// decoder reads a body by its Content-Encoding.
func decoder(t testing.TB, encoding string, r io.Reader) io.Reader {
	t.Helper()
	switch encoding {
	case "br":
		return brotli.NewReader(r)
	case "zstd":
		z := must.Get(zstd.NewReader(r, zstd.WithDecoderConcurrency(1)))(t)
		t.Cleanup(z.Close)
		return z
	case "gzip":
		z := must.Get(gzip.NewReader(r))(t)
		return z
	}
	return r
}

func decode(t testing.TB, a server.Answer) string {
	t.Helper()
	b, err := io.ReadAll(decoder(t, a.Header.Get("Content-Encoding"), strings.NewReader(a.Text)))
	if err != nil {
		t.Errorf("%v: %v", a.Header, err)
	}
	return string(b)
}

// prose is n bytes of text that can be compressed, but not to nothing.
func prose(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d bottles of beer on the wall, %x.\n", i*7919, i*i)
	}
	return b.String()[:n]
}

// dull reads text in pieces of odd sizes.
type dull struct {
	io.Reader
	n int
}

func (d *dull) Read(p []byte) (int, error) {
	d.n = (d.n*31 + 977) % (40 << 10)
	return d.Reader.Read(p[:min(len(p), d.n+1)])
}

// sources are all the ways of giving a response its body.
func sources(t *testing.T) map[string]func(resp *conn.Response, text string) {
	dir := t.TempDir()
	file := func(text string) *os.File {
		f, err := os.CreateTemp(dir, "")
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err != nil {
			panic(err)
		}
		return f
	}
	return map[string]func(resp *conn.Response, text string){
		"written": func(resp *conn.Response, text string) { io.WriteString(resp, text) },
		"in pieces": func(resp *conn.Response, text string) {
			for r := (&dull{Reader: strings.NewReader(text)}); ; {
				p := make([]byte, 50<<10)
				n, err := r.Read(p)
				if err != nil {
					return
				}
				resp.Write(p[:n])
				if n%3 == 0 {
					resp.Flush()
				}
			}
		},
		"declared": func(resp *conn.Response, text string) {
			resp.Header().Set("Content-Length", strconv.Itoa(len(text)))
			io.WriteString(resp, text)
		},
		"given": func(resp *conn.Response, text string) { resp.SetBody([]byte(text)) },
		"reader": func(resp *conn.Response, text string) {
			resp.SetBodyReader(&dull{Reader: strings.NewReader(text)}, -1)
		},
		"reader of known length": func(resp *conn.Response, text string) {
			resp.SetBodyReader(strings.NewReader(text+"more"), int64(len(text)))
		},
		"file": func(resp *conn.Response, text string) {
			resp.SetBodyFile(file("head"+text+"tail"), 4, int64(len(text)))
		},
		"relayed": func(resp *conn.Response, text string) {
			resp.Layer().Relay(200, "Fine")
			io.WriteString(resp, text)
		},
	}
}

func bridge(h func(w http.ResponseWriter, text string), text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { h(w, text) })
}
