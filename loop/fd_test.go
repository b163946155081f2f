package loop_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// fdWait waits for a descriptor, by its number.
type fdWait = func(th *loop.Thread, fd int, d time.Duration) error

// fdWaits are the waits for any descriptor, as far as one can wait for input.
var fdWaits = map[string]fdWait{
	"AwaitRead": func(th *loop.Thread, fd int, d time.Duration) error {
		return th.AwaitRead(d, fd)
	},
	"AwaitReadWrite": func(th *loop.Thread, fd int, d time.Duration) error {
		return th.AwaitReadWrite(d, fd)
	},
	"AwaitAny": func(th *loop.Thread, fd int, d time.Duration) error {
		_, err := th.AwaitAny(d, new(signal), loop.Readable(fd))
		return err
	},
	"AwaitAny, notified for nothing": func(th *loop.Thread, fd int, d time.Duration) error {
		th.Loop().Go(func(*loop.Thread) { loop.Notify(th) })
		_, err := th.AwaitAny(d, new(signal), loop.Readable(fd))
		return err
	},
	"AwaitAll": func(th *loop.Thread, fd int, d time.Duration) error {
		return th.AwaitAll(d, loop.Readable(fd))
	},
}

// fdCalls are the calls that wait where they have to.
var fdCalls = map[string]fdWait{
	"ReadFD": func(th *loop.Thread, fd int, d time.Duration) error {
		_, err := th.ReadFD(d, fd, make([]byte, 1))
		return err
	},
	"RecvFD": func(th *loop.Thread, fd int, d time.Duration) error {
		_, err := th.RecvFD(d, fd, make([]byte, 1))
		return err
	},
	"WriteFD": func(th *loop.Thread, fd int, d time.Duration) error {
		_, err := th.WriteFD(d, fd, []byte("x"))
		return err
	},
	"WritevFD": func(th *loop.Thread, fd int, d time.Duration) error {
		_, err := th.WritevFD(d, fd, [][]byte{[]byte("x")})
		return err
	},
}

// eachFD runs a test for each of these. What it leaves behind is found by the loop's end.
func eachFD(t *testing.T, ways map[string]fdWait,
	test func(t *testing.T, th *loop.Thread, wait fdWait)) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				l.Go(func(th *loop.Thread) {
					test(t, th, way)
					if n := loop.Claims(l); n != 0 {
						t.Errorf("%d claims are left", n)
					}
				})
				mustRun(t, l)
				if left := loop.Left(l); left != nil {
					t.Errorf("left with the loop: %v", left)
				}
			})
		})
	}
}

func TestBadDescriptor(t *testing.T) {
	bad := func(t *testing.T, th *loop.Thread, wait fdWait) {
		for _, fd := range []int{-1, -2, 1 << 20, 1 << 29, 1<<31 - 1} {
			want(t, wait(th, fd, time.Minute), unix.EBADF)
		}
		if n := loop.TableSize(th.Loop()); n > 1<<16 {
			t.Errorf("the table has grown to %d", n)
		}
	}
	eachFD(t, fdWaits, bad)
	eachFD(t, fdCalls, bad)
}

func TestDescriptorThatCannotBeAwaited(t *testing.T) {
	file := must.Get(os.Open("fd_test.go"))(t)
	defer file.Close()
	eachFD(t, fdWaits, func(t *testing.T, th *loop.Thread, wait fdWait) {
		want(t, wait(th, int(file.Fd()), time.Minute), unix.EPERM)
	})
}

// A descriptor that was awaited before, and is closed by a plain close.
func TestClosedDescriptor(t *testing.T) {
	closed := func(t *testing.T, th *loop.Thread, wait fdWait) {
		for _, armed := range []bool{false, true} {
			s := openPair(t)
			want(t, th.AwaitRead(0, s[0]), loop.ErrDeadlineExceeded)
			if !armed { // the event is delivered, but not consumed
				_, _ = unix.Write(s[1], []byte("x"))
				want(t, th.AwaitRead(time.Minute, s[0]), nil)
			}
			unix.Close(s[0])
			unix.Close(s[1])
			want(t, wait(th, s[0], time.Minute), unix.EBADF)
			want(t, wait(th, s[0], time.Minute), unix.EBADF)
		}
	}
	eachFD(t, fdWaits, closed)
	eachFD(t, fdCalls, closed)
}

func openPair(t *testing.T) [2]int {
	t.Helper()
	s := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
		0))(t)
	return s
}

// A descriptor that was awaited before; its number is another's when it is awaited again.
func TestReusedDescriptor(t *testing.T) {
	reused := func(t *testing.T, th *loop.Thread, wait fdWait) {
		for _, armed := range []bool{false, true} {
			old := openPair(t)
			want(t, th.AwaitRead(0, old[0]), loop.ErrDeadlineExceeded)
			if !armed {
				_, _ = unix.Write(old[1], []byte("x"))
				want(t, th.AwaitRead(time.Minute, old[0]), nil)
			}
			s := openPair(t)
			must.Do(t, unix.Dup3(s[0], old[0], unix.O_CLOEXEC)) // closes it
			unix.Close(s[0])
			began, d := time.Now(), 3*time.Millisecond
			want(t, wait(th, old[0], d), loop.ErrDeadlineExceeded) // not what is left of the old one
			if took := time.Since(began); took < d {
				t.Errorf("%v ended after %v", d, took)
			}
			th.Loop().Go(func(*loop.Thread) { _, _ = unix.Write(s[1], []byte("x")) }) // in the next turn
			want(t, wait(th, old[0], time.Minute), nil)
			want(t, th.CloseFD(old[0]), nil)
			unix.Close(s[1])
			unix.Close(old[1])
		}
	}
	waits := make(map[string]fdWait)
	for name, w := range fdWaits {
		if name != "AwaitReadWrite" { // it can be written, always
			waits[name] = w
		}
	}
	eachFD(t, waits, reused)
	eachFD(t, map[string]fdWait{"ReadFD": fdCalls["ReadFD"], "RecvFD": fdCalls["RecvFD"]}, reused)
}

// A close under a wait: CloseFD at once, and a plain close within a second, whether or not the
// number is another file's by then.
func TestClosedUnderAWait(t *testing.T) {
	for name, closes := range map[string]func(th *loop.Thread, fd int){
		"CloseFD": func(th *loop.Thread, fd int) { want(t, th.CloseFD(fd), nil) },
		"close":   func(th *loop.Thread, fd int) { unix.Close(fd) },
		"reused": func(th *loop.Thread, fd int) {
			s := openPair(t)
			want(t, unix.Dup3(s[0], fd, unix.O_CLOEXEC), nil) // closes it
			unix.Close(s[0])
			th.Defer(func() { unix.Close(s[1]) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachFD(t, fdWaits, func(t *testing.T, th *loop.Thread, wait fdWait) {
				s := openPair(t)
				defer unix.Close(s[1])
				fill(s[0])
				l := th.Loop()
				l.Go(func(other *loop.Thread) {
					l.Layer().AdvanceClock(2 * time.Second)
					want(t, other.Sleep(time.Millisecond), nil) // the loop looks, and the wait goes on
					closes(other, s[0])
					if name != "CloseFD" {
						l.Layer().AdvanceClock(2 * time.Second)
					}
				})
				want(t, wait(th, s[0], -1), net.ErrClosed)
				if name == "reused" {
					unix.Close(s[0])
				}
				want(t, wait(th, s[0], time.Minute), unix.EBADF)
				want(t, th.CloseFD(s[0]), unix.EBADF)
			})
		})
	}
}

// One thread waits for input and one for output, and both are told.
func TestBothHalvesAreTold(t *testing.T) {
	for name, end := range map[string]struct {
		do  func(th *loop.Thread, s [2]int)
		err error
	}{
		"CloseFD": {func(th *loop.Thread, s [2]int) { _ = th.CloseFD(s[0]) }, net.ErrClosed},
		"hang-up": {func(th *loop.Thread, s [2]int) { unix.Close(s[1]) }, nil},
		"events": {func(th *loop.Thread, s [2]int) {
			empty(s[1])
			_, _ = unix.Write(s[1], []byte("x"))
		}, nil},
		"close, found out": {func(th *loop.Thread, s [2]int) {
			unix.Close(s[0])
			unix.Close(s[1])
			th.Loop().Layer().AdvanceClock(2 * time.Second)
		}, net.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				s := openPair(t)
				fill(s[0])
				l.Go(func(th *loop.Thread) {
					for range 2 {
						if err := th.AwaitReadWrite(0, s[0]); !errors.Is(err, os.ErrDeadlineExceeded) {
							t.Error(err)
						}
					}
					writer := loop.Go(th, func(th *loop.Thread) (int, error) { return 0, th.AwaitWrite(-1, s[0]) })
					reader := loop.Go(th, func(th *loop.Thread) (int, error) { return 0, th.AwaitRead(-1, s[0]) })
					th.Yield()
					th.Yield()
					for _, f := range []func(time.Duration,
						int) error{th.AwaitRead, th.AwaitWrite, th.AwaitReadWrite} {
						want(t, f(time.Minute, s[0]), loop.ErrAwaited)
					}
					end.do(th, s)
					for i, p := range []*loop.Promise[int]{writer, reader} {
						_, err := p.Await(th, time.Minute)
						if !errors.Is(err, end.err) {
							t.Errorf("%s: %v, want %v", [...]string{"writer", "reader"}[i], err, end.err)
						}
					}
					if n := loop.Claims(l); n != 0 {
						t.Errorf("%d claims are left", n)
					}
				})
				mustRun(t, l)
				if left := loop.Left(l); left != nil {
					t.Errorf("left with the loop: %v", left)
				}
				if name != "close, found out" {
					unix.Close(s[0])
					unix.Close(s[1])
				}
			})
		})
	}
}

// A wait finds out that the descriptor was closed, and tells the thread that waits for it already.
func TestCloseIsFoundOut(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		s := openPair(t)
		fill(s[0])
		l.Go(func(th *loop.Thread) {
			writer := loop.Go(th, func(th *loop.Thread) (int, error) { return 0, th.AwaitWrite(-1, s[0]) })
			th.Yield()
			unix.Close(s[0])
			unix.Close(s[1])
			want(t, th.AwaitRead(time.Minute, s[0]), unix.EBADF)
			_, err := writer.Await(th, time.Minute)
			want(t, err, net.ErrClosed)
		})
		mustRun(t, l)
		if left := loop.Left(l); left != nil {
			t.Errorf("left with the loop: %v", left)
		}
	})
}

func TestSecondAwait(t *testing.T) {
	eachFD(t, fdWaits, func(t *testing.T, th *loop.Thread, wait fdWait) {
		r, w := pipe(t)
		l := th.Loop()
		first := l.Go(func(th *loop.Thread) { want(t, wait(th, r, -1), nil) })
		th.Yield()
		want(t, wait(th, r, time.Minute), loop.ErrAwaited)
		i, err := th.AwaitAny(time.Minute, th.After(time.Hour), loop.Readable(r))
		if i != 1 {
			t.Errorf("the source that is awaited already: %d", i)
		}
		want(t, err, loop.ErrAwaited)
		_, err = th.AwaitAny(time.Minute, loop.Readable(w), loop.Readable(w)) // the same twice
		want(t, err, loop.ErrAwaited)
		_, _ = unix.Write(w, []byte("x"))
		want(t, th.AwaitAll(time.Minute, first.End()), nil)
		want(t, wait(th, r, time.Minute), nil)
	})
}

// A thread's own socket is for Want*, and for sources.
func TestOwnDescriptor(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		c := serve(t, l, &task{run: func(b *task) coro.Code {
			fd := b.FD()
			_, _ = unix.Read(fd, make([]byte, 1))
			want(t, b.AwaitRead(time.Minute, fd), loop.ErrAwaited)
			want(t, b.CloseFD(fd), loop.ErrAwaited)
			b.Go(func(th *loop.Thread) error { // nor another's
				want(t, th.AwaitRead(time.Minute, fd), loop.ErrAwaited)
				_, err := th.AwaitAny(-1, b.Thread.Layer().Descriptor().Readable())
				want(t, err, loop.ErrAwaited)
				return nil
			})
			want(t, b.Join(), nil)
			i, err := b.AwaitAny(time.Millisecond, loop.Readable(fd), b.After(time.Hour))
			if i != -1 {
				t.Errorf("source %d", i)
			}
			want(t, err, loop.ErrDeadlineExceeded)
			if i, err = b.AwaitAny(time.Minute, b.After(time.Hour), loop.Writable(fd)); i != 1 ||
				err != nil {
				t.Errorf("writable: %d, %v", i, err)
			}
			_, err = b.AwaitAny(time.Minute, loop.Readable(fd), b.Thread.Layer().Descriptor().Readable())
			want(t, err, loop.ErrAwaited)
			_, _ = unix.Write(fd, []byte("x"))
			if i, err = b.AwaitAny(time.Minute, b.After(time.Hour), loop.Readable(fd)); i != 1 ||
				err != nil {
				t.Errorf("readable: %d, %v", i, err)
			}
			want(t, b.Sleep(time.Millisecond), nil) // the interest of before does not end it
			return coro.Abort
		}})
		_, _ = c.Write([]byte("x"))
		wait := start(t, l)
		_, _ = io.ReadFull(c, make([]byte, 1))
		_, _ = c.Write([]byte("y"))
		wait()
		if left := loop.Left(l); left != nil {
			t.Errorf("left with the loop: %v", left)
		}
	})
}

// A client that leaves while its own socket is among the sources makes that ready; the read tells.
func TestOwnSocketAmongTheSources(t *testing.T) {
	for name, leave := range leavings {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				entered := make(chan struct{})
				c := serve(t, l, &task{run: func(b *task) coro.Code {
					for n := 0; n == 0; {
						n, _ = b.Thread.Layer().Descriptor().Recv(make([]byte, 9))
					}
					if _, errno := b.Thread.Layer().Descriptor().Recv(make([]byte, 9)); errno != unix.EAGAIN {
						t.Errorf("second read: %v", errno)
					}
					close(entered)
					sources := []loop.Source{new(signal), b.Thread.Layer().Descriptor().Readable()}
					for range 2 { // and it stays so
						if i, err := b.AwaitAny(-1, sources...); i != 1 || err != nil {
							t.Errorf("source %d, %v", i, err)
						}
					}
					n, errno := b.Thread.Layer().Descriptor().Recv(make([]byte, 9))
					if n != 0 || errno == unix.EAGAIN && !invariants.Enabled {
						t.Errorf("read %d, %v", n, errno)
					}
					return coro.Abort
				}})
				_, _ = c.Write([]byte("x"))
				wait := start(t, l)
				<-entered
				on(t, l, func() {})
				leave(c)
				wait()
			})
		})
	}
}

// What is seen of a peer that hangs up, ends its half, or of an error, is the same for each of the
// waits and as often as it is asked; and there is silence in between.
func TestHangUpEndAndError(t *testing.T) {
	states := map[string]func(t *testing.T) (fd int, free func()){
		"peer closed": func(t *testing.T) (int, func()) {
			s := openPair(t)
			unix.Close(s[1])
			return s[0], func() { unix.Close(s[0]) }
		},
		"peer ended its half": func(t *testing.T) (int, func()) {
			s := openPair(t)
			_ = unix.Shutdown(s[1], unix.SHUT_WR)
			return s[0], func() { unix.Close(s[0]); unix.Close(s[1]) }
		},
		"writer of a pipe closed": func(t *testing.T) (int, func()) {
			var p [2]int
			_ = unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC)
			unix.Close(p[1])
			return p[0], func() { unix.Close(p[0]) }
		},
		"connection refused": func(t *testing.T) (int, func()) {
			fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
				0))(t)
			nobody := &unix.SockaddrInet4{Port: 1, Addr: [4]byte{127, 0, 0, 1}}
			if err := unix.Connect(fd, nobody); err != unix.EINPROGRESS && err != unix.ECONNREFUSED {
				t.Fatal(err)
			}
			return fd, func() { unix.Close(fd) }
		},
	}
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			eachFD(t, fdWaits, func(t *testing.T, th *loop.Thread, wait fdWait) {
				fd, free := state(t)
				defer free()
				for range 3 {
					want(t, wait(th, fd, time.Minute), nil)
				}
				_, err := th.ReadFD(time.Minute, fd, make([]byte, 1))
				if !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNREFUSED) {
					t.Errorf("read: %v", err)
				}
				before := th.Loop().Stats()
				_ = th.Sleep(20 * time.Millisecond)
				if after := th.Loop().Stats(); after.Events != before.Events {
					t.Errorf("%d events that no thread waits for", after.Events-before.Events)
				}
			})
		})
	}
}

// A thread that finds out itself that its own descriptor was closed and reused is not woken for it:
// it does not wait.
func TestRunningThreadIsNotWoken(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		c := serve(t, l, &task{run: func(b *task) coro.Code {
			_, _ = unix.Read(b.FD(), make([]byte, 1))
			want(t, b.WantRead(0), loop.ErrDeadlineExceeded) // input is what it wants now
			s := openPair(t)
			must.Do(t, unix.Dup3(s[0], b.FD(), unix.O_CLOEXEC)) // closes it
			unix.Close(s[0])
			other := &task{run: func(*task) coro.Code { return coro.Abort }}
			must.Do(t, l.Attach(&other.Thread, b.FD(), other, time.Minute))
			b.KeepWaiting(true)
			began, d := time.Now(), 3*time.Millisecond
			want(t, b.Sleep(d), nil)
			if took := time.Since(began); took < d {
				t.Errorf("Sleep of %v ended after %v", d, took)
			}
			unix.Close(s[1])
			return coro.Abort
		}})
		_, _ = c.Write([]byte("x"))
		mustRun(t, l)
		if left := loop.Left(l); left != nil {
			t.Errorf("left with the loop: %v", left)
		}
	})
}
