package conn_test

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestIdleUntaken: a client that has not taken all of its answer is not idle. The keep-alive
// timeout does not end it, and what it asks for then is answered, behind all of the rest. If it
// takes the last bytes too late for that timeout, the connection has the write timeout.
func TestIdleUntaken(t *testing.T) {
	const limit = 40 * time.Millisecond
	body := string(noise()[:40_000]) // more than a small window, and no more than the kernel takes
	run(t, func(t *testing.T, m mode) {
		var answered atomic.Int32
		s := start(t, m,
			conn.Config{Limits: conn.Limits{KeepAliveTimeout: limit, WriteTimeout: wait.Patience / 6},
				Handler: func(_ *conn.Request, w *conn.Response) int {
					w.SetBody([]byte(body))
					answered.Add(1)
					return 200
				}})
		c := s.DialSmall()
		send(t, c, get)
		s.Settled("answered", func(*loop.Loop) bool { return answered.Load() == 1 })
		time.Sleep(3 * limit)
		if s.Active() != 1 {
			t.Error("the connection does not count any more")
		}
		send(t, c, get)
		for i := range 2 {
			if a := c.Answer("GET"); a.Text != body {
				t.Fatalf("answer %d: %d bytes", i+1, len(a.Text))
			}
		}
		c.Ends() // taken, and idle
	}, plain, direct)
}

// TestIdleNeverTaken: a client that takes nothing has write_timeout, and then the kernel holds
// nothing for it either.
func TestIdleNeverTaken(t *testing.T) {
	const limit = 40 * time.Millisecond
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Limits: conn.Limits{KeepAliveTimeout: limit, WriteTimeout: limit},
			Handler: func(_ *conn.Request, w *conn.Response) int {
				w.SetBody(noise()[:200_000])
				return 200
			}})
		c := s.DialSmall()
		send(t, c, get)
		s.Idle()
		if n, err := io.Copy(io.Discard, c.R); err == nil || n >= 200_000 {
			t.Errorf("%d bytes, %v: the kernel still had them", n, err)
		}
	}, plain, direct)
}

// sizes records how many bytes the answers had.
type sizes chan int64

func (s sizes) LogRequest(_ *loop.Loop, e *conn.AccessEntry) bool {
	s <- e.Bytes
	return true
}

func (s sizes) HasRoom(*loop.Loop, conn.Share) bool { return true }

// TestLoggedBytes: of an answer that breaks off, what the client has not got does not count as
// sent, neither in the log nor in the counters.
func TestLoggedBytes(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	ways := sources(t)
	run(t, func(t *testing.T, m mode) {
		t.Parallel()
		logged := make(sizes, 1)
		s := start(t, m, conn.Config{AccessLog: logged, Count: true, Handler: byPath(ways)})
		impatient := start(t, m,
			conn.Config{Limits: conn.Limits{WriteTimeout: 100 * time.Millisecond}, AccessLog: logged,
				Count:   true,
				Handler: byPath(ways)})
		of := map[*site]int64{}
		next := func(s *site) int64 {
			t.Helper()
			n := <-logged
			of[s] += n
			if sent := tallied(s).Routes[0].Sent; sent != of[s] {
				t.Errorf("%d bytes counted, %d logged", sent, of[s])
				of[s] = sent
			}
			return n
		}
		for path := range ways {
			ask := "GET " + path + "?4194304 HTTP/1.1\r\nHost: a\r\n\r\n"
			c := s.Dial()
			if a := c.Do("GET", ask); a.StatusCode != 200 || len(a.Text) != size {
				t.Fatalf("%s: %s", path, a.Status)
			}
			if n := next(s); n != size {
				t.Errorf("%s: %d bytes logged of a whole answer", path, n)
			}
			c.Close()

			small := impatient.DialSmall()
			send(t, small, ask)
			if n := next(impatient); n > 256<<10 { // it has taken what its window has room for
				t.Errorf("%s: %d bytes logged of an answer that nobody reads", path, n)
			}
			small.Close()

			small = s.DialSmall()
			send(t, small, ask)
			// few: the kernel may send 2 KiB every 200 ms
			got := must.Get(io.CopyN(io.Discard, small.R, 30_000))(t)
			small.Reset()
			// The head, the framing of the body and what the kernels have not acknowledged yet are
			// no content that was sent for certain.
			if n := next(s); n < got-(8<<10) || n > got+(256<<10) {
				t.Errorf("%s: %d bytes logged, and the client has read %d", path, n, got)
			}
		}
	}, plain, direct, overTLS)
}
