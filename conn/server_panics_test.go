package conn_test

import (
	"net/http"
	"testing"

	"github.com/lwango/lwango/conn"
)

// TestPanicked: panics are counted, those of an http.Handler too, and http.ErrAbortHandler is none.
func TestPanicked(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: byPath(map[string]conn.Handler{
			"/":      hello,
			"/own":   func(*conn.Request, *conn.Response) int { panic("on purpose") },
			"/abort": func(*conn.Request, *conn.Response) int { panic(http.ErrAbortHandler) },
			"/std": conn.HTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				panic("on purpose")
			})),
		})})
		s.Panics.Expect()
		for path, want := range map[string]int64{"/": 0, "/own": 1, "/std": 1, "/abort": 0} {
			before := s.Server.Panicked()
			s.Exchange("GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			if n := s.Server.Panicked() - before; n != want {
				t.Errorf("%s: %d panics counted, want %d", path, n, want)
			}
		}
	})
}
