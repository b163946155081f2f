package conn_test

import (
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"

	"github.com/lwango/lwango/loop"
)

// tailor writes the rest of an answer.
type tailor struct {
	run func(t *loop.Thread) (time.Duration, bool)
	end func(t *loop.Thread)
}

func (k *tailor) Run(t *loop.Thread) (time.Duration, bool) {
	if k.run == nil {
		return 0, false
	}
	return k.run(t)
}

func (k *tailor) End(t *loop.Thread) {
	if k.end != nil {
		k.end(t)
	}
}

// keepOpen leaves the rest of the answer to k.
func keepOpen(resp *conn.Response, k conn.Keeper) *conn.Tail {
	resp.Header().Set("Content-Type", "text/plain")
	if _, err := resp.WriteString("head "); err != nil {
		panic(err)
	}
	if err := resp.Flush(); err != nil {
		panic(err)
	}
	tail, err := resp.Layer().KeepOpen(k)
	if err != nil {
		panic(err)
	}
	return tail
}

// TestTailsInARow: answers that a keeper ends at once, each with the next request behind it, do not stand
// on each other's stack.
func TestTailsInARow(t *testing.T) {
	const many = 50
	run(t, func(t *testing.T, m mode) {
		begun, sent := make(chan bool), make(chan bool)
		depths := make(chan int, many)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			depths <- runtime.Callers(0, make([]uintptr, 10_000))
			begun <- true
			<-sent
			_ = req.Sleep(time.Millisecond) // the loop sees that there is input
			keepOpen(resp, &tailor{})
			return 200
		}})
		c := s.Dial()
		c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		for range many - 1 {
			<-begun
			c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			sent <- true
			if a := c.Answer("GET"); a.Text != "head " {
				t.Fatalf("%d, %q", a.StatusCode, a.Text)
			}
		}
		<-begun
		sent <- true
		c.Answer("GET")
		first := <-depths
		for range many - 1 {
			if n := <-depths; n > first+5 {
				t.Fatalf("%d frames, at first %d", n, first)
			}
		}
		c.Close()
		_, _ = io.Copy(io.Discard, c)
		s.Idle()
	}, plain, direct, overTLS)
}

var tails = []mode{plain, direct, overTLS, modes.HTTP2, modes.HTTP2TLS}

// TestTailMissesNothing: a notification that comes while something waits that Run has left behind has the
// keeper run again.
func TestTailMissesNothing(t *testing.T) {
	for name, leave := range map[string]func(t *loop.Thread, f func(t *loop.Thread)){
		"deferred": func(t *loop.Thread, f func(t *loop.Thread)) { t.Defer(func() { f(t) }) },
		"started": func(t *loop.Thread, f func(t *loop.Thread)) {
			t.Go(func(t *loop.Thread) error { f(t); return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, m mode) {
				s := start(t, m, conn.Config{Handler: func(_ *conn.Request, resp *conn.Response) int {
					runs := 0
					keepOpen(resp, &tailor{run: func(t *loop.Thread) (time.Duration, bool) {
						if runs++; runs == 1 {
							leave(t, func(waits *loop.Thread) {
								loop.Notify(t)
								_ = waits.Sleep(2 * time.Millisecond)
							})
						}
						return -1, runs == 1
					}})
					return 200
				}})
				c := s.Dial()
				c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				if a := c.Answer("GET"); a.Text != "head " {
					t.Errorf("%d, %q", a.StatusCode, a.Text)
				}
				c.Close()
				s.Idle()
			}, tails...)
		})
	}
}
