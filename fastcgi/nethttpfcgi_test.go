package fastcgi_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"strings"
	"testing"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/internal/test/must"
)

// TestStandardLibrary: the application is another implementation of the protocol, net/http/fcgi.
func TestStandardLibrary(t *testing.T) {
	ln := must.Listen(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/echo.php", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	mux.HandleFunc("/sum.php", func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		io.Copy(h, r.Body)
		w.Header().Set("X-Host", r.Host)
		fmt.Fprintf(w, "%x %s %s", h.Sum(nil), r.URL.Query().Get("a"), r.RemoteAddr[:9])
	})
	mux.HandleFunc("/no.php", func(w http.ResponseWriter,
		r *http.Request) {
		http.Error(w, "no", 404)
	})
	done := make(chan error)
	go func() { done <- fcgi.Serve(ln, mux) }()
	t.Cleanup(func() {
		ln.Close()
		if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	for _, keep := range []bool{false, true} {
		p := serve(t, []string{ln.Addr().String()}, func(s *fastcgi.Settings) { s.KeepConn = keep })
		for _, n := range []int{0, 1, 32759, 32760, 32761, 65536, 1 << 20} {
			body := strings.Repeat("x", n)
			g := p.request("POST /sum.php?a=b", nil, body)
			if want := fmt.Sprintf("%x b 127.0.0.1", sha256.Sum256([]byte(body))); g.body != want ||
				g.header.Get("X-Host") != "test.example" {
				t.Errorf("%d: %d %q", n, g.status, g.body)
			}
		}
		if g := p.request("PUT /echo.php", nil, strings.Repeat("y",
			1<<20)); g.body != strings.Repeat("y", 1<<20) ||
			g.err != nil {
			t.Error("echo: ", g.status, len(g.body), g.err)
		}
		for range 3 {
			if g := p.get("/no.php"); g.status != 404 || g.body != "no\n" {
				t.Error(g)
			}
		}
	}
}
