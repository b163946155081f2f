package loop_test

import (
	"net"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// idleFD returns a descriptor that is kept, its number and the other end.
func idleFD(t *testing.T, l *loop.Loop) (d *loop.Shared, fd, peer int) {
	t.Helper()
	s := openPair(t)
	d = new(loop.Shared)
	must.Do(t, l.Layer().Register(d, s[0]))
	fd, ok := l.Layer().PutIdle(&d.Descriptor)
	if !ok || fd != s[0] {
		t.Fatal(fd, ok)
	}
	return d, fd, s[1]
}

// poll lets the loop poll for events.
func poll(th *loop.Thread) { _ = th.Sleep(2 * time.Millisecond) }

// TestKeep: a kept descriptor is taken again without a system call, unless something has
// come.
func TestKeep(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			d, fd, peer := idleFD(t, l)
			before := l.Stats().Ctls
			for range 3 {
				poll(th)
				if !l.Layer().Reuse(&d.Descriptor) {
					t.Fatal("nothing has come")
				}
				if again, ok := l.Layer().PutIdle(&d.Descriptor); !ok || again != fd {
					t.Error(again, ok)
				}
			}
			if n := l.Stats().Ctls - before; n != 0 {
				t.Error(n, " calls of epoll_ctl")
			}
			_, _ = unix.Write(peer, []byte("x"))
			poll(th)
			if l.Layer().Reuse(&d.Descriptor) {
				t.Error("a byte has come")
			}
			l.Layer().DeregisterIdle(fd)
			unix.Close(fd)
			unix.Close(peer)

			d, fd, peer = idleFD(t, l)
			unix.Close(peer)
			poll(th)
			if l.Layer().Reuse(&d.Descriptor) {
				t.Error("the peer has left")
			}
			l.Layer().DeregisterIdle(fd)
			unix.Close(fd)
		})
		mustRun(t, l)
	})
}

// TestRestOnlyIfQuiet: a descriptor on which something has come, or for which a thread waits, does
// not be kept.
func TestRestOnlyIfQuiet(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			for what, spoil := range map[string]func(d *loop.Descriptor, peer int){
				"a byte":  func(_ *loop.Descriptor, peer int) { _, _ = unix.Write(peer, []byte("x")) },
				"the end": func(_ *loop.Descriptor, peer int) { _ = unix.Shutdown(peer, unix.SHUT_WR) },
				"a wait": func(d *loop.Descriptor, _ int) {
					l.Go(func(th *loop.Thread) { want(t, d.AwaitRead(th, -1), net.ErrClosed) })
				},
			} {
				s := openPair(t)
				d := new(loop.Shared)
				must.Do(t, l.Layer().Register(d, s[0]))
				spoil(&d.Descriptor, s[1])
				poll(th)
				if _, ok := l.Layer().PutIdle(&d.Descriptor); ok {
					t.Error(what, ": it is kept")
				}
				l.Layer().CloseDescriptor(&d.Descriptor)
				unix.Close(s[1])
			}
			var closed loop.Shared
			s := openPair(t)
			must.Do(t, l.Layer().Register(&closed, s[0]))
			l.Layer().CloseDescriptor(&closed.Descriptor)
			unix.Close(s[1])
			if _, ok := l.Layer().PutIdle(&closed.Descriptor); ok || l.Layer().Reuse(&closed.Descriptor) {
				t.Error("it is closed")
			}
		})
		mustRun(t, l)
	})
}

// TestRestUnreadAtTheEnd: a read that filled its buffer has not told whether there is more, and
// Rest finds that out.
func TestRestUnreadAtTheEnd(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			s := openPair(t)
			var d loop.Shared
			must.Do(t, l.Layer().Register(&d, s[0]))
			_, _ = unix.Write(s[1], []byte("xyz"))
			want(t, d.AwaitRead(th, time.Minute), nil)
			buf := make([]byte, 3)
			for n := 0; n < len(buf); {
				k, _ := d.Recv(buf[n:])
				n += k
			}
			fd, ok := l.Layer().PutIdle(&d.Descriptor)
			if !ok {
				t.Fatal("all was read")
			}
			poll(th)
			if !l.Layer().Reuse(&d.Descriptor) {
				t.Error("nothing has come")
			}
			unix.Close(s[1])
			l.Layer().CloseDescriptor(&d.Descriptor)
			_ = fd
		})
		mustRun(t, l)
	})
}

// TestRestingIsTakenElsewhere: another loop takes a descriptor away. The first one is told of none
// of its events, and serves the next file that gets the number, whichever way that comes in.
func TestRestingIsTakenElsewhere(t *testing.T) {
	reuse := func(t *testing.T, th *loop.Thread, fd int, use func(s [2]int)) {
		t.Helper()
		s := openPair(t)
		if s[0] != fd {
			must.Do(t, unix.Dup3(s[0], fd, unix.O_CLOEXEC))
			unix.Close(s[0])
			s[0] = fd
		}
		use(s)
		unix.Close(s[1])
	}
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			d, fd, peer := idleFD(t, l)
			done := make(chan struct{})
			go func() { // any goroutine
				defer close(done)
				l.Layer().DeregisterIdle(fd)
			}()
			<-done
			events := l.Stats().Events
			_, _ = unix.Write(peer, []byte("x"))
			poll(th)
			if n := l.Stats().Events - events; n != 0 {
				t.Error(n, " events")
			}
			unix.Close(fd)
			unix.Close(peer)
			for range 2 {
				reuse(t, th, fd, func(s [2]int) {
					var again loop.Shared
					must.Do(t, l.Layer().Register(&again, fd))
					if l.Layer().Reuse(&d.Descriptor) {
						t.Error("the number is another's")
					}
					_, _ = unix.Write(s[1], []byte("x"))
					want(t, again.AwaitRead(th, time.Minute), nil)
					l.Layer().CloseDescriptor(&again.Descriptor)
				})
			}

			_, fd, peer = idleFD(t, l)
			l.Layer().DeregisterIdle(fd)
			unix.Close(fd)
			unix.Close(peer)
			reuse(t, th, fd, func(s [2]int) {
				_, _ = unix.Write(s[1], []byte("x"))
				want(t, th.AwaitRead(time.Minute, fd), nil)
				want(t, th.CloseFD(fd), nil)
			})

			_, fd, peer = idleFD(t, l)
			l.Layer().DeregisterIdle(fd)
			unix.Close(fd)
			unix.Close(peer)
			reuse(t, th, fd, func([2]int) { want(t, th.CloseFD(fd), nil) })
		})
		mustRun(t, l)
	})
}

// TestKeptOutlivesTheLoop: a loop that has ended leaves kept descriptors to their owner, who
// can take them and close them.
func TestKeptOutlivesTheLoop(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		var fd, peer int
		l.Go(func(*loop.Thread) { _, fd, peer = idleFD(t, l) })
		mustRun(t, l)
		defer unix.Close(peer)
		l.Layer().DeregisterIdle(fd)
		if _, err := unix.Write(fd, []byte("x")); err != nil {
			t.Error(err)
		}
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	})
}
