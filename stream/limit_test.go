package stream_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

func TestDeadlines(t *testing.T) {
	timedOut := func(t *testing.T, what string, err error, op string) {
		t.Helper()
		wants(t, what, err, loop.ErrDeadlineExceeded, op)
		var n net.Error
		if !errors.As(err, &n) || !n.Timeout() {
			t.Errorf("%s: %v is no timeout", what, err)
		}
	}
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		a, b := pair(t, l, "tcp")
		steps := make([]loop.Promise[int], 5)
		buf := make([]byte, 8)
		l.Go(func(th *loop.Thread) {
			defer a.Close()
			defer b.Close()
			_, _ = b.Write([]byte("x"))
			must.Do(t, a.SetDeadline(time.Now().Add(-time.Second)))
			_, err := a.Read(buf)
			timedOut(t, "read, passed", err, "read")
			_, err = a.Write(buf)
			timedOut(t, "write, passed", err, "write")
			if _, err = a.Send(buf, buf, false); err != loop.ErrDeadlineExceeded {
				t.Errorf("send, passed: %v", err)
			}
			_, err = io.Copy(io.Discard, a)
			timedOut(t, "copy, passed", err, "read")
			must.Do(t, a.SetDeadline(time.Time{}))
			if n, err := a.Read(buf); n != 1 || err != nil {
				t.Errorf("deadline removed: %d, %v", n, err)
			}

			began := time.Now()
			must.Do(t, a.SetReadDeadline(began.Add(20*time.Millisecond)))
			_, err = a.Read(buf)
			timedOut(t, "read, coming", err, "read")
			if d := time.Since(began); d < 20*time.Millisecond {
				t.Errorf("read, coming: after %v", d)
			}
			if _, err := a.Write([]byte("y")); err != nil {
				t.Errorf("the read deadline is for reads only: %v", err)
			}

			fill(a)
			before := l.Stats().Waits
			began = time.Now()
			must.Do(t, a.SetWriteDeadline(began.Add(20*time.Millisecond)))
			n, err := a.Write(make([]byte, 64<<20))
			timedOut(t, "write to who does not read", err, "write")
			if d := time.Since(began); d < 20*time.Millisecond || n == 64<<20 {
				t.Errorf("%d bytes after %v", n, d)
			}
			// The invariants tag forces short writes and EAGAIN.
			if n := l.Stats().Waits - before; n > 50 && !invariants.Enabled {
				t.Errorf("%d turns of the loop meanwhile", n)
			}

			// From now on the other thread sets the deadline. It goes on when this one waits.
			must.Do(t, a.SetDeadline(time.Time{}))
			steps[0].Resolve(0)
			_, err = a.Read(buf)
			timedOut(t, "set while it waits", err, "read")
			must.Do(t, a.SetReadDeadline(time.Now().Add(time.Hour)))
			steps[1].Resolve(0)
			_, err = a.Read(buf)
			timedOut(t, "moved to earlier", err, "read")
			must.Do(t, a.SetReadDeadline(time.Now().Add(500*time.Millisecond)))
			steps[2].Resolve(0)
			if n, err := a.Read(buf); n != 1 || err != nil {
				t.Errorf("moved to later: %d, %v", n, err)
			}
			must.Do(t, a.SetReadDeadline(time.Now().Add(500*time.Millisecond)))
			steps[3].Resolve(0)
			if n, err := a.Read(buf); n != 1 || err != nil {
				t.Errorf("removed: %d, %v", n, err)
			}
			steps[4].Resolve(0)
			_, err = a.Write(make([]byte, 16<<20))
			timedOut(t, "write, set while it waits", err, "write")
		})
		l.Go(func(th *loop.Thread) {
			for i, act := range []func(){
				func() { must.Do(t, a.SetReadDeadline(time.Unix(1, 0))) },
				func() { must.Do(t, a.SetDeadline(time.Now())) },
				func() {
					must.Do(t, a.SetDeadline(time.Now().Add(time.Hour)))
					_ = th.Sleep(510 * time.Millisecond)
					_, _ = b.Write([]byte("z"))
				},
				func() {
					must.Do(t, a.SetReadDeadline(time.Time{}))
					_ = th.Sleep(510 * time.Millisecond)
					_, _ = b.Write([]byte("z"))
				},
				func() { must.Do(t, a.SetWriteDeadline(time.Now())) },
			} {
				_, _ = steps[i].Await(th, -1)
				act()
			}
		})
	})
}

// Deadlines may be farther away than a Duration reaches.
func TestDeadlinesFarAway(t *testing.T) {
	past, future := time.Time{}.Add(1), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		a, b := pair(t, l, "tcp")
		buf := make([]byte, 8)
		l.Go(func(th *loop.Thread) {
			defer a.Close()
			defer b.Close()
			must.Do(t, a.SetDeadline(past))
			_, err := a.Read(buf)
			wants(t, "read, passed", err, loop.ErrDeadlineExceeded, "read")
			_, err = a.Write(buf)
			wants(t, "write, passed", err, loop.ErrDeadlineExceeded, "write")
			must.Do(t, a.SetDeadline(future))
			th.Go(func(*loop.Thread) error { // runs when Read waits, as the next one does
				_, err := b.Write([]byte("x"))
				return err
			})
			if n, err := a.Read(buf); n != 1 || err != nil {
				t.Errorf("read, to come: %d, %v", n, err)
			}
			th.Go(func(*loop.Thread) error { return a.SetReadDeadline(past) })
			_, err = a.Read(buf)
			wants(t, "read, passed while it waits", err, loop.ErrDeadlineExceeded, "read")
		})
	})
}

// A deadline that is set again and again, as many protocols do it, wakes no thread that does not
// wait.
func TestDeadlinesOfOnesOwn(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		srv, err := stream.StartServer(l, "tcp", "127.0.0.1:0", -1, func(
			th *loop.Thread, s *stream.Conn,
		) error {
			b := make([]byte, 4)
			for {
				_ = s.SetDeadline(time.Now().Add(time.Minute))
				if _, err := io.ReadFull(s, b); err != nil {
					return err
				}
				began := time.Now()
				_ = s.SetDeadline(time.Now().Add(time.Hour))
				if err := th.Sleep(5 * time.Millisecond); err != nil ||
					time.Since(began) < 5*time.Millisecond {
					t.Errorf("slept %v, %v", time.Since(began), err)
				}
				if _, err := s.Write(b); err != nil {
					return err
				}
			}
		})
		must.Do(t, err)
		l.Go(func(th *loop.Thread) {
			c, err := stream.Dial(th, time.Minute, "tcp", srv.Addr().String())
			must.Do(t, err)
			for range 3 {
				_, _ = c.Write([]byte("ping"))
				_, err := io.ReadFull(c, make([]byte, 4))
				must.Do(t, err)
			}
			_ = c.Close()
			_ = srv.Close()
		})
	})
}
