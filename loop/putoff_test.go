package loop_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// late is a sender that writes what is left at once, and counts it.
type late struct {
	fd   int
	left int
}

func (s *late) Unsent(rest []byte) {
	s.left += len(rest)
	_, _ = unix.Write(s.fd, rest)
}

// got returns what there is to read.
func got(fd int) string {
	var all []byte
	for buf := make([]byte, 4096); ; {
		n, err := unix.Read(fd, buf)
		if n <= 0 || err != nil {
			return string(all)
		}
		all = append(all, buf[:n]...)
	}
}

// TestPutOff: what is put off goes out behind the threads of the turn, and before the descriptor is
// used in another way.
func TestPutOff(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		open := func() (d *loop.Shared, s *late, peer int) {
			fds := socketpair(t)
			d = new(loop.Shared)
			must.Do(t, l.Open(d, fds[0]))
			return d, &late{fd: fds[0]}, fds[1]
		}
		d, s, peer := open()
		ran := false
		l.Go(func(th *loop.Thread) {
			l.PutOff(&d.Descriptor, s, []byte("one two"))
			if text := got(peer); text != "" {
				t.Errorf("%q was sent at once", text)
			}
			th.Yield()
			if text := got(peer); text != "one two" || !ran {
				t.Errorf("got %q behind the turn, another thread has run: %v", text, ran)
			}
			l.PutOff(&d.Descriptor, s, []byte("three"))
			l.SendNow(&d.Descriptor)
			if text := got(peer); text != "three" {
				t.Errorf("got %q from SendNow", text)
			}
			l.SendNow(&d.Descriptor) // nothing is left
			l.PutOff(&d.Descriptor, s, []byte("four"))
			unix.Close(l.Release(&d.Descriptor))
			if text := got(peer); text != "four" {
				t.Errorf("got %q from Release", text)
			}
			d, s, peer := open()
			l.PutOff(&d.Descriptor, s, []byte("five"))
			l.CloseDescriptor(&d.Descriptor)
			if text := got(peer); text != "five" {
				t.Errorf("got %q from CloseDescriptor", text)
			}
			th.Yield()
			peers := []int{}
			for i := range loop.PutOffMost + 1 {
				d, s, peer := open()
				if i < loop.PutOffMost {
					peers = append(peers, peer)
				}
				l.PutOff(&d.Descriptor, s, []byte("six"))
				defer l.CloseDescriptor(&d.Descriptor)
			}
			for _, peer := range peers {
				if text := got(peer); text != "six" {
					t.Errorf("got %q: nothing waits behind more of them", text)
				}
			}
		})
		l.Go(func(th *loop.Thread) {
			ran = true
			if text := got(peer); text != "" {
				t.Errorf("%q was sent before the end of the turn", text)
			}
		})
		mustRun(t, l)
	})
}

// TestPutOffEnds: a thread that ends or is killed has its last words sent.
func TestPutOffEnds(t *testing.T) {
	for _, way := range []string{"ends", "is killed"} {
		run(t, func(t *testing.T, l *loop.Loop) {
			b := &body{}
			b.run = func(b *body) coro.Code {
				if l.Stopping() {
					return coro.Abort
				}
				l.PutOff(loop.Own(&b.Thread), &late{fd: b.FD()}, []byte("last"))
				if way == "is killed" {
					l.Stop(0)
					return coro.WantRead
				}
				return coro.Abort
			}
			c := serve(t, l, b)
			wait := start(t, l)
			must.Get(c.Write([]byte("x")))(t)
			var all bytes.Buffer
			_, _ = all.ReadFrom(c)
			if all.String() != "last" {
				t.Errorf("%s: the peer got %q", way, &all)
			}
			wait()
		})
	}
}

// TestPutOffUnsent: the sender gets what the kernel has no room for, and Nudge wakes a thread that waits
// for input, as well as an idle one.
func TestPutOffUnsent(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		fds := socketpair(t)
		d := new(loop.Shared)
		must.Do(t, l.Open(d, fds[0]))
		fill(fds[0])
		s := &late{fd: fds[0]}
		woken := 0
		l.Go(func(th *loop.Thread) {
			must.Do(t, d.AwaitRead(th, time.Minute))
			woken++
			if _, errno := d.Recv(make([]byte, 1)); errno != unix.EAGAIN {
				t.Error(errno)
			}
			unix.Close(l.Release(&d.Descriptor))
		})
		idle, _, runs := idleOnce(t, l)
		l.Go(func(th *loop.Thread) {
			for *runs == 0 {
				_ = th.Sleep(time.Millisecond)
			}
			l.PutOff(&d.Descriptor, s, []byte("rest"))
			th.Yield()
			if s.left != len("rest") {
				t.Errorf("the sender got %d bytes", s.left)
			}
			l.Nudge(&d.Descriptor)
			l.Nudge(loop.Own(&idle.Thread))
		})
		mustRun(t, l)
		if woken != 1 || *runs != 2 {
			t.Errorf("%d threads and %d idle ones were woken", woken, *runs-1)
		}
	})
}
