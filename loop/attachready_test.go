package loop_test

import (
	"bytes"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestAttachReady: a thread whose input is there when it is attached reads it in the same turn, and
// epoll never gets to know its socket if the thread ends then. One that waits is in epoll before
// that, whatever it waits for, and is told when its peer leaves.
func TestAttachReady(t *testing.T) {
	waits := map[string]func(b *task) coro.Code{
		"ends": nil,
		"goes idle": func(b *task) coro.Code {
			b.run = func(*task) coro.Code { return coro.Abort }
			return coro.WantRead
		},
		"is suspended": func(b *task) coro.Code {
			want(t, b.Sleep(time.Minute), loop.ErrClientGone)
			return coro.Abort
		},
		"yields": func(b *task) coro.Code {
			for b.left == 0 {
				b.Yield()
			}
			return coro.Abort
		},
		"waits for room": func(b *task) coro.Code {
			want(t, b.WantWrite(time.Minute), nil)
			want(t, b.WantRead(time.Minute), nil)
			return coro.Abort
		},
		"waits for another": func(b *task) coro.Code {
			other := openPair(t)
			defer unix.Close(other[0])
			defer unix.Close(other[1])
			want(t, b.AwaitRead(time.Minute, other[0]), loop.ErrClientGone)
			b.RunDeferred(0)
			return coro.Abort
		},
	}
	for name, then := range waits {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				l.Go(untilStopped)
				wait := start(t, l)
				s := openPair(t)
				must.Get(unix.Write(s[1], []byte("x")))(t)
				read, began, ended := make(chan struct{}), int64(0), make(chan struct{})
				b := &task{ended: ended, run: func(b *task) coro.Code {
					if n := b.Loop().Stats().Waits; n != began {
						t.Errorf("the thread ran %d turns later", n-began)
					}
					for { // the invariants tag has it find nothing now and then
						n, errno := b.Layer().Descriptor().Recv(make([]byte, 8))
						if n == 1 {
							break
						} else if errno != unix.EAGAIN {
							t.Errorf("read %d bytes, %v", n, errno)
							return coro.Abort
						}
					}
					close(read)
					if then == nil {
						return coro.Abort
					}
					return then(b)
				}}
				var before, after loop.Stats
				on(t, l, func() {
					before = l.Stats()
					began = before.Waits
					must.Do(t, l.Layer().AttachReady(&b.Thread, s[0], b, time.Minute))
				})
				<-read
				if then == nil {
					<-ended
				}
				unix.Close(s[1])
				<-ended
				on(t, l, func() { after = l.Stats() })
				if n := after.Ctls - before.Ctls; then == nil && n != 0 {
					t.Errorf("%d calls of epoll_ctl for a thread that has not waited", n)
				}
				if name == "is suspended" && b.left != 1 {
					t.Errorf("ClientGone was called %d times", b.left)
				}
				l.Stop(time.Second)
				wait()
			})
		})
	}
}

// TestGoneBeforeTheFirstWait: a thread of AttachReady learns before it waits that its peer sends no
// more.
func TestGoneBeforeTheFirstWait(t *testing.T) {
	for _, left := range []bool{false, true} {
		run(t, func(t *testing.T, l *loop.Loop) {
			s := openPair(t)
			defer unix.Close(s[1])
			must.Get(unix.Write(s[1], []byte("x")))(t)
			if left {
				must.Do(t, unix.Shutdown(s[1], unix.SHUT_WR))
			}
			b := &task{run: func(b *task) coro.Code {
				if b.Layer().SeeGone() != left {
					t.Errorf("gone: %v", !left)
				}
				return coro.Abort
			}}
			must.Do(t, l.Layer().AttachReady(&b.Thread, s[0], b, time.Minute))
			mustRun(t, l)
		})
	}
}

// TestUnreadBehindTheFirstWait: input that a thread of AttachReady has left in the socket is still
// there for Unread when epoll has got to know the socket and has told nothing yet.
func TestUnreadBehindTheFirstWait(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		s := openPair(t)
		defer unix.Close(s[1])
		must.Get(unix.Write(s[1], []byte("xy")))(t)
		runs := 0
		b := &task{run: func(b *task) coro.Code {
			d := b.Layer().Descriptor()
			if !d.Unread() {
				t.Errorf("run %d: there is no input", runs)
			}
			for { // the invariants tag has it find nothing now and then
				if _, errno := d.Recv(make([]byte, 1)); errno != unix.EAGAIN {
					break
				}
			}
			if runs++; runs < 2 {
				return coro.Yield
			}
			return coro.Abort
		}}
		must.Do(t, l.Layer().AttachReady(&b.Thread, s[0], b, time.Minute))
		mustRun(t, l)
	})
}

// TestAttachReadyRefusedByEpoll: a thread whose socket epoll does not take does not wait for an
// event that cannot come, and the socket is shut: otherwise the thread would read in vain, again
// and again. Epoll takes no file.
func TestAttachReadyRefusedByEpoll(t *testing.T) {
	waits := map[string]func(b *task) coro.Code{
		"goes idle": func(*task) coro.Code { return coro.WantRead },
		"is a source": func(b *task) coro.Code {
			i, err := b.AwaitAny(time.Minute, b.Layer().Descriptor().Readable())
			if i != 0 || err != nil {
				t.Error(i, err)
			}
			return coro.Yield
		},
	}
	for name, then := range waits {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			l := must.Get(loop.New(loop.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
			f := must.Get(os.Create(t.TempDir() + "/file"))(t)
			fd := must.Get(unix.Dup(int(f.Fd())))(t)
			f.Close()
			runs := 0
			b := &task{ended: make(chan struct{}), run: func(b *task) coro.Code {
				if runs++; runs < 2 {
					return then(b)
				}
				return coro.Abort
			}}
			must.Do(t, l.Layer().AttachReady(&b.Thread, fd, b, time.Minute))
			mustRun(t, l)
			if runs != 2 || strings.Count(log.String(), "epoll does not take it") != 1 {
				t.Errorf("%d runs, and the log has %q", runs, log.String())
			}
		})
	}
}

// TestEndIdleOfTheUnseen: a thread of AttachReady may be ended before it has run, unless its peer
// has sent something.
func TestEndIdleOfTheUnseen(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(untilStopped)
		wait := start(t, l)
		var ended []int
		on(t, l, func() {
			for n := range 3 {
				s := openPair(t)
				t.Cleanup(func() { unix.Close(s[1]) })
				i := &idler{peer: s[1], n: n, ended: &ended, word: coro.Abort}
				if n == 1 {
					must.Get(unix.Write(s[1], []byte("x")))(t)
				}
				must.Do(t, l.Layer().AttachReady(&i.Thread, s[0], i, time.Minute))
				i.Layer().MarkIdle(l.Time(), false)
				if there := sysio.Unread(s[0]); there != (n == 1) {
					t.Errorf("%d has input: %v", n, there)
				}
			}
			for l.Layer().EndIdle() {
			}
			if want := []int{0, 2}; !slices.Equal(ended, want) {
				t.Errorf("ended: %v, want %v", ended, want)
			}
		})
		on(t, l, func() {
			if want := []int{0, 2, 1}; !slices.Equal(ended, want) {
				t.Errorf("in the end: %v, want %v", ended, want)
			}
		})
		l.Stop(time.Second)
		wait()
	})
}

// untilStopped keeps a loop running that may have no other threads.
func untilStopped(t *loop.Thread) { _, _ = t.AwaitAny(-1, t.Loop().Stopped()) }
