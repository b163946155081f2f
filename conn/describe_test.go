package conn_test

import (
	"bytes"
	"runtime"
	"runtime/trace"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
)

// TestTracedToTheEnd: a request's task in a trace ends, which is when its route is noted, however
// its handler ends.
func TestTracedToTheEnd(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		var text bytes.Buffer
		if err := trace.Start(&text); err != nil {
			t.Fatal(err)
		}
		defer trace.Stop()
		entered := make(chan struct{}, 1)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, _ *conn.Response) int {
			req.SetPrefix("route of " + req.Path())
			entered <- struct{}{}
			switch req.Path() {
			case "/exits":
				runtime.Goexit()
			case "/panics":
				panic("a test")
			case "/killed":
				_ = req.Sleep(time.Hour)
			}
			return 200
		}})
		paths := []string{"/returns", "/panics", "/exits", "/killed"}
		for _, path := range paths {
			s.Dial().Send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
			<-entered
		}
		s.Stop(0)
		trace.Stop()
		for _, path := range paths {
			if !bytes.Contains(text.Bytes(), []byte("route of "+path)) {
				t.Errorf("the task of %s has not ended", path)
			}
		}
	}, plain, direct)
}
