package loop_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// signal is a Source as another package would write it: a subscription whose messages come from any
// goroutine.
type signal struct {
	mu     sync.Mutex
	waiter *loop.Thread
	on     bool
}

func (s *signal) Watch(t *loop.Thread) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiter = t
	return nil
}

func (s *signal) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.on
}

func (s *signal) Unwatch(*loop.Thread) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiter = nil
}

func (s *signal) set() {
	s.mu.Lock()
	s.on = true
	waiter := s.waiter
	s.mu.Unlock()
	if waiter != nil {
		loop.Notify(waiter)
	}
}

func (s *signal) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.on
	s.on = false
	return was
}

func (s *signal) watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiter != nil
}

// things are all that a thread can wait for, none of it ready.
type things struct {
	t      *testing.T
	l      *loop.Loop
	r, w   int    // an empty pipe
	fr, fw int    // a full one
	s      [2]int // a connected pair of sockets

	stream  loop.Shared // of s[0]
	promise *loop.Promise[int]
	ch      chan int
	channed *loop.Chan[int]
	sub     *signal
	release chan struct{} // of functions
	freed   sync.Once
}

func newThings(t *testing.T, l *loop.Loop) *things {
	f := &things{t: t, l: l, promise: new(loop.Promise[int]), sub: new(signal)}
	f.ch, f.release = make(chan int), make(chan struct{})
	f.r, f.w = pipe(t)
	f.fr, f.fw = pipe(t)
	fill(f.fw)
	f.s = socketpair(t)
	f.channed = loop.FromChan(f.ch)
	t.Cleanup(f.free)
	return f
}

// free ends the functions off the loop.
func (f *things) free() { f.freed.Do(func() { close(f.release) }) }

func socketpair(t *testing.T) [2]int {
	t.Helper()
	s := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
		0))(t)
	t.Cleanup(func() { unix.Close(s[0]); unix.Close(s[1]) })
	return s
}

func fill(w int) {
	for chunk := make([]byte, 64<<10); ; {
		if _, err := unix.Write(w, chunk); err == unix.EAGAIN {
			return
		}
	}
}

func empty(r int) {
	for chunk := make([]byte, 64<<10); ; {
		if _, err := unix.Read(r, chunk); err == unix.EAGAIN {
			return
		}
	}
}

func (f *things) block(context.Context) error { <-f.release; return nil }

func (f *things) child(th *loop.Thread) *loop.Thread {
	return th.Go(func(th *loop.Thread) error { _, err := f.promise.Await(th, -1); return err })
}

// any waits for one source.
func (f *things) any(th *loop.Thread, d time.Duration, s loop.Source) error {
	i, err := th.AwaitAny(d, s)
	if (err == nil) != (i == 0) {
		f.t.Errorf("AwaitAny returned %d, %v", i, err)
	}
	return err
}

func (f *things) sources(th *loop.Thread) []loop.Source {
	return []loop.Source{
		loop.Readable(f.r), loop.Writable(f.fw), f.stream.Readable(), th.After(time.Hour), f.promise,
		f.channed, f.sub,
		loop.Call(th, func() (int, error) { return 0, f.block(context.Background()) }), f.child(th).End(),
	}
}

// A wait is one way of waiting for what does not come, or comes with fulfil. It ends with the
// error.
type wait struct {
	name   string
	begin  func(f *things, th *loop.Thread, d time.Duration) error
	fulfil func(f *things) // on any goroutine; nil: nothing does
}

func write(f *things)    { _, _ = unix.Write(f.w, []byte("x")) }
func makeRoom(f *things) { empty(f.fr) }
func answer(f *things)   { _, _ = unix.Write(f.s[1], []byte("x")) }
func keep(f *things)     { f.promise.Resolve(1) }

var waits = []wait{
	{"Sleep", func(f *things, th *loop.Thread, d time.Duration) error {
		if d < 0 {
			d = time.Hour
		}
		if err := th.Sleep(d); err != nil {
			return err
		}
		return loop.ErrDeadlineExceeded
	}, nil},
	{"AwaitRead", func(f *things, th *loop.Thread, d time.Duration) error {
		return th.AwaitRead(d, f.r)
	}, write},
	{"AwaitRead, armed", func(f *things, th *loop.Thread, d time.Duration) error {
		_ = th.AwaitRead(0, f.r)
		return th.AwaitRead(d, f.r)
	}, write},
	{"AwaitWrite", func(f *things, th *loop.Thread, d time.Duration) error {
		return th.AwaitWrite(d, f.fw)
	}, makeRoom},
	{"AwaitReadWrite", func(f *things, th *loop.Thread, d time.Duration) error {
		return th.AwaitReadWrite(d, f.r)
	}, write},
	{"ReadFD", func(f *things, th *loop.Thread, d time.Duration) error {
		_, err := th.ReadFD(d, f.r, make([]byte, 1))
		return err
	}, write},
	{"RecvFD", func(f *things, th *loop.Thread, d time.Duration) error {
		_, err := th.RecvFD(d, f.s[0], make([]byte, 1))
		return err
	}, answer},
	{"WriteFD", func(f *things, th *loop.Thread, d time.Duration) error {
		_, err := th.WriteFD(d, f.fw, []byte("x"))
		return err
	}, makeRoom},
	{"WritevFD", func(f *things, th *loop.Thread, d time.Duration) error {
		_, err := th.WritevFD(d, f.fw, [][]byte{nil, []byte("x"), {}, []byte("y")})
		return err
	}, makeRoom},
	{"stream", func(f *things, th *loop.Thread, d time.Duration) error {
		if err := f.l.Layer().Register(&f.stream, f.s[0]); err != nil {
			return err
		}
		defer f.l.Layer().Deregister(&f.stream.Descriptor)
		return f.stream.AwaitRead(th, d)
	}, answer},
	{"Await", func(f *things, th *loop.Thread, d time.Duration) error { return th.Await(d, f.block) },
		(*things).free},
	{"Promise.Await", func(f *things, th *loop.Thread, d time.Duration) error {
		_, err := f.promise.Await(th, d)
		return err
	}, keep},
	{"AwaitAny, readable", func(f *things, th *loop.Thread, d time.Duration) error {
		return f.any(th, d, loop.Readable(f.r))
	}, write},
	{"AwaitAny, writable", func(f *things, th *loop.Thread, d time.Duration) error {
		return f.any(th, d, loop.Writable(f.fw))
	}, makeRoom},
	{"AwaitAny, timer", func(f *things, th *loop.Thread, d time.Duration) error {
		return f.any(th, d, th.After(time.Hour))
	}, nil},
	{"AwaitAny, channel", func(f *things, th *loop.Thread, d time.Duration) error {
		return f.any(th, d, f.channed)
	}, func(f *things) { f.ch <- 1 }},
	{"AwaitAny, closed channel", func(f *things, th *loop.Thread, d time.Duration) error {
		return f.any(th, d, f.channed)
	}, func(f *things) { close(f.ch) }},
	{"AwaitAny, promise", func(f *things, th *loop.Thread, d time.Duration) error {
		return f.any(th, d, f.promise)
	}, keep},
	{"AwaitAny, subscription", func(f *things, th *loop.Thread, d time.Duration) error {
		return f.any(th, d, f.sub)
	}, func(f *things) { f.sub.set() }},
	{"AwaitAny, function", func(f *things, th *loop.Thread, d time.Duration) error {
		return f.any(th, d, loop.Call(th, func() (int, error) {
			return 0, f.block(context.Background())
		}))
	}, (*things).free},
	{"AwaitAny, end of a thread", func(f *things, th *loop.Thread, d time.Duration) error {
		return f.any(th, d, f.child(th).End())
	}, keep},
	{"AwaitAny, nothing", func(f *things, th *loop.Thread, d time.Duration) error {
		_, err := th.AwaitAny(d)
		return err
	}, nil},
	{"AwaitAny, everything", func(f *things, th *loop.Thread, d time.Duration) error {
		if err := f.l.Layer().Register(&f.stream, f.s[0]); err != nil {
			return err
		}
		defer f.l.Layer().Deregister(&f.stream.Descriptor)
		_, err := th.AwaitAny(d, f.sources(th)...)
		return err
	}, func(f *things) { f.sub.set() }},
	{"AwaitAll, everything", func(f *things, th *loop.Thread, d time.Duration) error {
		if err := f.l.Layer().Register(&f.stream, f.s[0]); err != nil {
			return err
		}
		defer f.l.Layer().Deregister(&f.stream.Descriptor)
		sources := f.sources(th)
		sources[3] = th.After(time.Millisecond)
		return th.AwaitAll(d, sources...)
	}, func(f *things) {
		f.ch <- 1
		f.free()
		write(f)
		makeRoom(f)
		answer(f)
		f.sub.set()
		keep(f)
	}},
}

// check ends a test: what f waited for is unregistered by now, though its thread has not run its
// deferred calls.
func (f *things) check() {
	f.t.Helper()
	if n := loop.Claims(f.l); n != 0 {
		f.t.Errorf("%d claims are left", n)
	}
	if f.sub.watched() {
		f.t.Error("the subscription is still watched")
	}
}

// eachWait runs a test for each wait and handoff. f.check and the loop's end see to what is left.
func eachWait(t *testing.T, test func(t *testing.T, l *loop.Loop, w wait, f *things)) {
	for _, w := range waits {
		t.Run(w.name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				t.Cleanup(l.Close) // of one that was not needed
				test(t, l, w, newThings(t, l))
				if left := loop.Left(l); left != nil {
					t.Errorf("left with the loop: %v", left)
				}
			})
		})
	}
}

func want(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("error %v, want %v", got, want)
	}
}

func TestEveryWaitTimesOut(t *testing.T) {
	eachWait(t, func(t *testing.T, l *loop.Loop, w wait, f *things) {
		l.Go(func(th *loop.Thread) {
			defer th.Cancel()
			for _, d := range []time.Duration{0, time.Nanosecond, 3 * time.Millisecond} {
				began := time.Now()
				want(t, w.begin(f, th, d), loop.ErrDeadlineExceeded)
				if took := time.Since(began); took < d {
					t.Errorf("%v ended after %v", d, took)
				}
				f.check()
			}
		})
		mustRun(t, l)
	})
}

func TestEveryWaitEndsWithWhatItWaitsFor(t *testing.T) {
	eachWait(t, func(t *testing.T, l *loop.Loop, w wait, f *things) {
		if w.fulfil == nil {
			return
		}
		l.Go(func(th *loop.Thread) {
			defer th.Cancel()
			th.Loop().Go(func(*loop.Thread) { go w.fulfil(f) }) // in the next turn: th waits
			want(t, w.begin(f, th, -1), nil)
			f.check()
		})
		mustRun(t, l)
	})
}

func TestEveryWaitIsCanceled(t *testing.T) {
	eachWait(t, func(t *testing.T, l *loop.Loop, w wait, f *things) {
		l.Go(func(th *loop.Thread) {
			err := th.Scope(func() error {
				th.Go(func(th *loop.Thread) error {
					defer th.Cancel()
					want(t, w.begin(f, th, -1), loop.ErrCanceled)
					f.check()
					want(t, w.begin(f, th, -1), loop.ErrCanceled) // and again, before it has begun
					f.check()
					return nil
				})
				th.Yield()
				th.Yield() // it waits
				th.Cancel()
				return nil
			})
			want(t, err, nil)
		})
		mustRun(t, l)
	})
}

// A thread that is canceled when what it has waited for is there, but has not gone on yet, keeps
// that; its next wait ends.
func TestCanceledWhileQueued(t *testing.T) {
	eachWait(t, func(t *testing.T, l *loop.Loop, w wait, f *things) {
		if w.fulfil == nil {
			return
		}
		l.Go(func(th *loop.Thread) {
			_ = th.Scope(func() error {
				member := th.Go(func(th *loop.Thread) error {
					defer th.Cancel()
					if err := w.begin(f, th, -1); err != nil && !errors.Is(err, loop.ErrCanceled) {
						t.Errorf("error %v", err)
					}
					f.check()
					want(t, th.Sleep(time.Hour), loop.ErrCanceled)
					return nil
				})
				th.Yield()
				th.Yield()
				loop.Notify(member)
				fulfilled := make(chan struct{})
				go func() { w.fulfil(f); close(fulfilled) }()
				for done := false; !done; th.Yield() {
					select {
					case <-fulfilled:
						done = true
					default:
					}
				}
				th.Cancel()
				return nil
			})
		})
		mustRun(t, l)
	})
}

var leavings = map[string]func(c *net.TCPConn){
	"FIN":   func(c *net.TCPConn) { _ = c.CloseWrite() },
	"reset": func(c *net.TCPConn) { _ = c.SetLinger(0); _ = c.Close() },
}

func TestEveryWaitEndsWhenTheClientLeaves(t *testing.T) {
	for name, leave := range leavings {
		t.Run(name, func(t *testing.T) {
			eachWait(t, func(t *testing.T, l *loop.Loop, w wait, f *things) {
				entered := make(chan struct{})
				c := serve(t, l, &task{run: func(b *task) coro.Code {
					defer b.Cancel()
					_, _ = unix.Read(b.FD(), make([]byte, 1))
					close(entered)
					want(t, w.begin(f, &b.Thread, -1), loop.ErrClientGone)
					f.check()
					if !b.Gone() {
						t.Error("the client is not known to be gone")
					}
					want(t, w.begin(f, &b.Thread, -1), loop.ErrClientGone) // before it has begun
					f.check()
					return coro.Abort
				}})
				_, _ = c.Write([]byte("x"))
				wait := start(t, l)
				<-entered
				on(t, l, func() {}) // it waits
				leave(c)
				wait()
			})
		})
	}
}

func TestEveryWaitIsKept(t *testing.T) {
	eachWait(t, func(t *testing.T, l *loop.Loop, w wait, f *things) {
		if w.fulfil == nil {
			return
		}
		entered := make(chan struct{})
		b := &task{run: func(b *task) coro.Code {
			defer b.Cancel()
			_, _ = unix.Read(b.FD(), make([]byte, 1))
			close(entered)
			b.KeepWaiting(true)
			want(t, w.begin(f, &b.Thread, -1), nil)
			f.check()
			return coro.Abort
		}}
		c := serve(t, l, b)
		_, _ = c.Write([]byte("x"))
		wait := start(t, l)
		<-entered
		_ = c.CloseWrite()
		for gone := false; !gone; {
			on(t, l, func() { gone = b.Gone() })
		}
		w.fulfil(f)
		wait()
	})
}

func TestEveryWaitIsKilled(t *testing.T) {
	eachWait(t, func(t *testing.T, l *loop.Loop, w wait, f *things) {
		deferred, again := 0, false
		entered := make(chan struct{})
		l.Go(func(th *loop.Thread) {
			th.Defer(func() { deferred++ })
			defer func() {
				_ = w.begin(f, th, -1) // a killed thread cannot wait
				again = true
			}()
			th.Go(func(th *loop.Thread) error { close(entered); return nil })
			_ = w.begin(f, th, -1)
			t.Error("the wait has ended")
		})
		wait := start(t, l)
		<-entered
		on(t, l, func() {})
		l.Stop(0)
		wait()
		if deferred != 1 || again {
			t.Errorf("deferred calls ran %d times; went on: %v", deferred, again)
		}
		f.check()
		f.free()
	})
}
