package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestStalledProfile: a client that does not read its profile does not keep others from theirs.
func TestStalledProfile(t *testing.T) {
	written, ended := make(chan bool), make(chan bool)
	h := server.Timed(50*time.Millisecond, func(w io.Writer) error {
		go func() { // as the runtime does
			defer close(written)
			for p := make([]byte, 1<<20); ; {
				if _, err := w.Write(p); err != nil {
					return
				}
			}
		}()
		return nil
	}, func() { <-written })
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		h(w, r)
	}))
	defer s.Close()
	c := must.Dial(t, "tcp", s.Listener.Addr().String())
	defer c.Close()
	must.Get(io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	select {
	case <-ended:
	case <-time.After(wait.Patience):
		t.Fatal("the client keeps the profiler")
	}
}
