package stream_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// TestDuplex: a thread that passes everything back waits only in Await, and loses nothing. Its peer
// sends all before it reads. So it is where small pieces are put off.
func TestDuplex(t *testing.T) {
	t.Run("at once", func(t *testing.T) { duplex(t, false) })
	t.Run("put off", func(t *testing.T) { duplex(t, true) })
}

func duplex(t *testing.T, putOff bool) {
	data := chacha(2 << 20)
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		l.Layer().PutOffAlways()
		a, b := pair(t, l, "unix") // with room for little
		l.Go(func(*loop.Thread) {
			defer a.Close()
			_, err := a.Write(data)
			must.Do(t, err)
			must.Do(t, a.CloseWrite())
			if got, err := io.ReadAll(a); err != nil || !bytes.Equal(got, append(data, "end"...)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
		l.Go(func(*loop.Thread) {
			defer b.Close()
			var d stream.Duplex
			b.Duplex(&d)
			held, buf := 0, make([]byte, 64<<10)
			for i := 0; ; i++ {
				n, err := b.Read(buf[:[]int{len(buf), 1000, 20}[i%3]])
				if n > 0 {
					if putOff && b.PutOff(buf[:n]) {
						continue
					}
					if k, err := b.Write(buf[:n]); k != n || err != nil {
						t.Errorf("wrote %d of %d, %v", k, n, err)
					}
					if held = max(held, d.Held()); d.Held() > 0 {
						if _, err := b.TryWrite(buf); err != stream.ErrWouldBlock {
							t.Errorf("written before what is held: %v", err)
						}
					}
					continue
				}
				if err == io.EOF {
					break
				}
				if err != stream.ErrWouldBlock {
					t.Error(err)
				}
				must.Do(t, d.Await(-1, true))
				if _, err := d.SendHeld(); err != nil {
					t.Error(err)
				}
			}
			if held == 0 {
				t.Error("nothing was held: the test shows nothing")
			}
			must.Do(t, d.End())
			if _, err := b.Write([]byte("end")); err != nil || d.Held() != 0 {
				t.Errorf("after the end: %v, %d held", err, d.Held())
			}
		})
	})
}

// TestDuplexCopies: what is held goes out before a file, and before spliced bytes.
func TestDuplexCopies(t *testing.T) {
	path := t.TempDir() + "/file"
	must.Do(t, os.WriteFile(path, []byte("file"), 0o600))
	bulk := chacha(1 << 20)
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		a, b := pair(t, l, "tcp")
		c, from := pair(t, l, "tcp")
		l.Go(func(*loop.Thread) {
			defer c.Close()
			_, err := c.Write(bulk)
			must.Do(t, err)
		})
		l.Go(func(*loop.Thread) {
			defer b.Close()
			defer from.Close()
			var d stream.Duplex
			b.Duplex(&d)
			_, err := b.Write(data16)
			must.Do(t, err)
			f, err := os.Open(path)
			must.Do(t, err)
			defer f.Close()
			if n, err := io.Copy(b, f); n != 4 || err != nil {
				t.Errorf("file: %d, %v", n, err)
			}
			if n, err := io.Copy(b, from); n != int64(len(bulk)) || err != nil {
				t.Errorf("bulk: %d, %v", n, err)
			}
			must.Do(t, d.End())
		})
		l.Go(func(th *loop.Thread) {
			defer a.Close()
			_ = th.Sleep(10 * time.Millisecond) // the socket is full by then
			got, err := io.ReadAll(a)
			must.Do(t, err)
			if want := append(append(bytes.Clone(data16), "file"...), bulk...); !bytes.Equal(
				got, want) {
				t.Errorf("%d bytes, or in another order", len(got))
			}
		})
	})
}

var data16 = make([]byte, 16<<20) // more than sockets take

// TestPace: a peer that does not move a byte in time, or too few bytes, ends reads, writes and the
// waits of a Duplex. A deadline replaces the pace. Only the time in which the stream waits counts,
// by the loop's clock, which stands still during a turn.
func TestPace(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			a, b := pair(t, l, "unix")
			defer a.Close()
			defer b.Close()
			buf := make([]byte, 1<<20)
			var in, out stream.Pace
			tooSlow := func(what string, began time.Time, least time.Duration, err error) {
				t.Helper()
				if d := time.Since(began); !errors.Is(err, stream.ErrTooSlow) ||
					!errors.Is(err, os.ErrDeadlineExceeded) || d < least {
					t.Errorf("%s: %v after %v", what, err, d)
				}
			}
			idle := 20 * time.Millisecond
			in, out = stream.Pace{Idle: idle}, stream.Pace{Idle: idle}
			a.SetPace(&in, &out)

			began := l.Time()
			_, err := a.Read(buf)
			tooSlow("idle read", began, idle, err)
			var operation *net.OpError
			if !errors.As(err, &operation) {
				t.Errorf("%T without the addresses", err)
			}
			_, _ = b.Write([]byte("x"))
			th.Yield() // so that the loop hears of it
			n, err := a.Read(buf)
			for try := 0; invariants.Enabled && err != nil && try < 100; try++ { // a forced EAGAIN
				n, err = a.Read(buf)
			}
			if n != 1 || err != nil || in.Bytes() != 1 {
				t.Errorf("what has come counts: %d, %v, %d", n, err, in.Bytes())
			}
			_ = th.Sleep(2 * idle) // while no thread reads
			a.SetNoWait(true)
			if _, err := a.Read(buf); err != stream.ErrWouldBlock {
				t.Errorf("in time, without a wait: %v", err)
			}
			a.SetNoWait(false)

			began = l.Time()
			for err = nil; err == nil; {
				_, err = a.Write(buf)
			}
			tooSlow("idle write", began, idle, err)

			// A deadline instead, longer than the pace.
			must.Do(t, a.SetReadDeadline(time.Now().Add(3*idle)))
			began, in = l.Time(), stream.Pace{Idle: idle}
			if err := a.AwaitInput(); err != nil { // there may be something to read
				t.Errorf("deadline: %v", err)
			}
			if _, err := a.Read(buf); errors.Is(err, stream.ErrTooSlow) ||
				!errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("deadline: %v", err)
			}
			if d := time.Since(began); d < 3*idle {
				t.Errorf("deadline after %v", d)
			}
			if !a.ReadExpired() {
				t.Error("the deadline has not passed")
			}
			must.Do(t, a.SetReadDeadline(time.Time{}))
			a.SetNoWait(true)
			if _, err := a.Read(buf); err != stream.ErrWouldBlock {
				t.Errorf("what was waited by the deadline counts: %v", err)
			}
			a.SetNoWait(false)

			// The peer sends a byte now and then.
			in = stream.Pace{
				Idle: time.Minute, MinRate: 10_000, Grace: 2 * idle, Window: time.Minute,
			}
			l.Go(func(th *loop.Thread) {
				for {
					if _, err := b.Write([]byte("x")); err != nil {
						return
					}
					_ = th.Sleep(5 * time.Millisecond)
				}
			})
			began = l.Time()
			for err = nil; err == nil; {
				_, err = a.Read(buf)
			}
			tooSlow("drip", began, 2*idle, err)

			// Duplex: the socket is full.
			in, out = stream.Pace{}, stream.Pace{Idle: idle}
			var d stream.Duplex
			a.Duplex(&d)
			n, err = a.Write(buf)
			full := d.Held() == len(buf)
			if invariants.Enabled { // a forced EAGAIN has left room, for which UNIX sockets do not wake
				full = d.Held() > 0
			}
			if n != len(buf) || err != nil || !full {
				t.Errorf("held: %d, %v, %d", n, err, d.Held())
			}
			began = l.Time()
			for err = nil; err == nil; _, err = d.SendHeld() {
				must.Do(t, d.Await(-1, false))
			}
			tooSlow("held", began, idle, err)
			if d.Held() != 0 {
				t.Errorf("%d bytes held for a peer that is given up", d.Held())
			}
			in = stream.Pace{Idle: idle}
			_, _ = io.Copy(io.Discard, a)
			if err := d.Await(time.Millisecond, false); err != loop.ErrDeadlineExceeded {
				t.Errorf("the caller's limit: %v", err)
			}
		})
	})
}
