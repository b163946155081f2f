package loop_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

func TestAwaitAnyMix(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		r, w := pipe(t)
		ch, release := make(chan string), make(chan struct{})
		promise, childMay := new(loop.Promise[int]), new(loop.Promise[int])
		l.Go(func(th *loop.Thread) {
			child := th.Go(func(th *loop.Thread) error { _, err := childMay.Await(th, -1); return err })
			readable, timer, fromChan := loop.Readable(r), th.After(time.Millisecond), loop.FromChan(ch)
			call := loop.Call(th, func() (string, error) {
				<-release
				return "called", nil
			})
			sources := []loop.Source{readable, timer, fromChan, promise, call, child.End()}
			next := func(want int) {
				t.Helper()
				i, err := th.AwaitAny(time.Minute, sources...)
				if i != want || err != nil {
					t.Errorf("source %d, %v; want %d", i, err, want)
				}
			}
			next(1)
			timer.Reset(time.Hour)
			_, _ = unix.Write(w, []byte("x"))
			next(0)
			_, _ = th.ReadFD(0, r, make([]byte, 9))
			go promise.Resolve(7)
			next(3)
			if v, err := promise.Value(); v != 7 || err != nil {
				t.Errorf("promise: %d, %v", v, err)
			}
			sources[3] = new(loop.Promise[int])
			go func() { ch <- "hello" }()
			next(2)
			if v, ok := fromChan.Value(); v != "hello" || !ok {
				t.Errorf("channel: %q, %v", v, ok)
			}
			close(release)
			next(4)
			if v, err := call.Value(); v != "called" || err != nil {
				t.Errorf("call: %q, %v", v, err)
			}
			sources[4] = new(loop.Promise[int])
			childMay.Resolve(0)
			next(5)
			sources[5] = new(loop.Promise[int])
			if i, err := th.AwaitAny(time.Millisecond, sources...); i != -1 ||
				!errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("nothing is ready: %d, %v", i, err)
			}
			close(ch)
			next(2)
			if v, ok := fromChan.Value(); v != "" || ok {
				t.Errorf("closed channel: %q, %v", v, ok)
			}
		})
		mustRun(t, l)
	})
}

func TestScopeCancelsTheOthers(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		boom := errors.New("boom")
		l.Go(func(th *loop.Thread) {
			var canceled error
			err := th.Scope(func() error {
				th.Go(func(th *loop.Thread) error {
					canceled = th.Sleep(time.Hour)
					return canceled
				})
				th.Go(func(th *loop.Thread) error {
					_ = th.Sleep(time.Millisecond)
					return boom
				})
				return nil
			})
			if err != boom || !errors.Is(canceled, loop.ErrCanceled) {
				t.Errorf("scope: %v; other: %v", err, canceled)
			}
			p := loop.Go(th, func(th *loop.Thread) (int, error) { panic("on purpose") })
			_, err = p.Await(th, time.Minute)
			var pe *loop.PanicError
			if !errors.As(err, &pe) || pe.Value != "on purpose" {
				t.Errorf("panic: %v", err)
			}
			if err := th.Await(time.Minute, func(context.Context) error {
				panic(boom)
			}); !errors.Is(err, boom) {
				t.Errorf("panic off the loop: %v", err)
			}
		})
		mustRun(t, l)
	})
}

// A function posted to the loop notifies threads: those that wait look again, all in the next turn,
// and no others.
func TestNotifyLocal(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		const waiting = 10
		var open bool
		var threads []*loop.Thread
		looked, passed := 0, 0
		gate := source(func() bool { looked++; return open })
		for range waiting {
			threads = append(threads, l.Go(func(th *loop.Thread) {
				if _, err := th.AwaitAny(time.Minute, gate); err != nil {
					t.Error(err)
				}
				passed++
			}))
		}
		sleeper := l.Go(func(th *loop.Thread) { // does not await a source
			start := l.Time()
			if err := th.Sleep(20 * time.Millisecond); err != nil ||
				l.Time().Sub(start) < 20*time.Millisecond {
				t.Errorf("woken early: %v", err)
			}
		})
		l.Go(func(th *loop.Thread) {
			for round := 1; round <= 3; round++ {
				open = round == 3
				told := new(loop.Promise[int])
				_ = l.Post(func() {
					for _, waiter := range append(threads, sleeper) {
						waiter.Layer().NotifyLocal()
						waiter.Layer().NotifyLocal() // is once
					}
					told.Resolve(0)
				})
				_, _ = told.Await(th, time.Minute)
				th.Yield()
				if looked != waiting*(round+1) {
					t.Errorf("round %d: looked %d times", round, looked)
				}
			}
			if passed != waiting {
				t.Errorf("%d have passed", passed)
			}
			for _, ended := range threads {
				ended.Layer().NotifyLocal()
			}
		})
		mustRun(t, l)
	})
}

// source is ready when the function says so.
type source func() bool

func (source) Watch(*loop.Thread) error { return nil }
func (s source) Ready() bool            { return s() }
func (source) Unwatch(*loop.Thread)     {}

// BenchmarkNotify is a thousand threads that wait for one thing, and look: by a call of Notify for
// each, as from another goroutine, or by one Post and NotifyLocal.
func BenchmarkNotify(b *testing.B) {
	for _, mode := range []string{"notify", "local"} {
		b.Run(mode, func(b *testing.B) {
			bench(b, coro.Channel, func(th *loop.Thread) {
				const many = 1000
				var threads []*loop.Thread
				open := false
				for range many {
					threads = append(threads, th.Go(func(th *loop.Thread) error {
						_, err := th.AwaitAny(-1, source(func() bool { return open }))
						return err
					}))
				}
				th.Yield()
				tell := loop.Notify
				if mode == "local" {
					tell = func(t *loop.Thread) { t.Layer().NotifyLocal() }
				}
				var telling time.Duration
				for b.Loop() {
					over := false
					start := time.Now()
					_ = th.Loop().Post(func() {
						for _, waiter := range threads {
							tell(waiter)
						}
						telling += time.Since(start)
						over = true
					})
					for !over {
						th.Yield()
					}
					th.Yield()
				}
				b.ReportMetric(float64(telling.Nanoseconds())/float64(b.N)/many, "telling-ns/thread")
				open = true
				for _, waiter := range threads {
					waiter.Layer().NotifyLocal()
				}
			})
		})
	}
}

// BenchmarkAwaitAny is a wait for a descriptor, a timer, a promise and a subscription, which is
// what ends it. The loop itself publishes, in a turn of its own: a turn, an epoll_wait and a
// handoff there and back are part of it.
//
// "turn" is the same without the wait: what a thread that only yields takes, with the publisher
// beside it.
func BenchmarkAwaitAny(b *testing.B) {
	for _, h := range []coro.Handoff{coro.Channel, coro.Direct} {
		for _, mode := range []string{"any", "turn"} {
			b.Run(mode+"/"+h.String(), func(b *testing.B) {
				bench(b, h, func(th *loop.Thread) {
					r, w, _ := osPipe()
					readable, timer := loop.Readable(r), th.After(time.Hour)
					promise, sub, over := new(loop.Promise[int]), new(signal), false
					var publish func()
					publish = func() {
						sub.set()
						if !over {
							_ = th.Loop().Post(publish)
						}
					}
					publish()
					for b.Loop() {
						if mode == "turn" {
							th.Yield()
							continue
						}
						if i, err := th.AwaitAny(time.Minute, readable, timer, promise, sub); i != 3 || err != nil {
							b.Fatal(i, err)
						}
						sub.take()
					}
					over = true
					unix.Close(w)
					_ = th.CloseFD(r)
				})
			})
		}
	}
}

// bench runs f on a loop of its own, and counts the calls of epoll_ctl and the processor's time,
// which other programs on the machine do not blur as much.
func bench(b *testing.B, h coro.Handoff, f func(th *loop.Thread)) {
	l := must.Get(loop.New(loop.Options{Handoff: h}))(b)
	l.Go(func(th *loop.Thread) {
		b.ReportAllocs()
		ctls, used := l.Stats().Ctls, cpuTime()
		f(th)
		b.ReportMetric(float64(cpuTime()-used)/float64(b.N), "cpu-ns/op")
		b.ReportMetric(float64(l.Stats().Ctls-ctls)/float64(b.N), "epoll_ctl/op")
	})
	must.Do(b, l.Run())
}

func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAwaitRead is a byte through a pipe, the thread waiting before it is written, by the loop
// itself.
//
//	armed  ReadFD finds the pipe empty, waits and reads: two reads and a wait
//	asked  a wait and a read of what there is
//	calls  the write and the two reads of armed, alone
func BenchmarkAwaitRead(b *testing.B) {
	one := []byte("x")
	for _, h := range []coro.Handoff{coro.Channel, coro.Direct} {
		for _, mode := range []string{"armed", "asked"} {
			b.Run(mode+"/"+h.String(), func(b *testing.B) {
				bench(b, h, func(th *loop.Thread) {
					r, w, _ := osPipe()
					buf, wanted, over := make([]byte, 8), true, false
					var feed func()
					feed = func() { // between turns: the thread waits
						if wanted {
							wanted = false
							_, _ = unix.Write(w, one)
						}
						if !over {
							_ = th.Loop().Post(feed)
						}
					}
					feed()
					for b.Loop() {
						if mode == "armed" {
							_, _ = th.ReadFD(time.Minute, r, buf)
						} else {
							_ = th.AwaitRead(time.Minute, r)
							_, _ = unix.Read(r, buf)
						}
						wanted = true
					}
					over = true
					unix.Close(w)
					_ = th.CloseFD(r)
				})
			})
		}
	}
	b.Run("calls", func(b *testing.B) {
		r, w, _ := osPipe()
		buf := make([]byte, 8)
		for b.Loop() {
			_, _ = unix.Write(w, one)
			_, _ = unix.Read(r, buf)
			_, _ = unix.Read(r, buf)
		}
		unix.Close(r)
		unix.Close(w)
	})
}

// yielder is a source whose Ready lets others run, as a read does that has used up its turn. It is
// never ready.
type yielder struct {
	th    *loop.Thread
	times int
}

func (y *yielder) Watch(th *loop.Thread) error { y.th = th; return nil }
func (y *yielder) Unwatch(*loop.Thread)        {}

func (y *yielder) Ready() bool {
	if y.times > 0 {
		y.times--
		y.th.Yield()
	}
	return false
}

// TestReadyMayYield: what becomes ready while a later source is asked is not missed, and a source
// that yields for ever does not outlast the limit.
func TestReadyMayYield(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		r, w := pipe(t)
		promise := new(loop.Promise[int])
		for name, c := range map[string]struct {
			source loop.Source
			keep   func()
		}{
			"promise":    {promise, func() { promise.Resolve(1) }},
			"descriptor": {loop.Readable(r), func() { _, _ = unix.Write(w, []byte("x")) }},
		} {
			l.Go(func(th *loop.Thread) {
				began := time.Now()
				i, err := th.AwaitAny(20*time.Second, c.source, &yielder{times: 2})
				// asked at the limit
				if late := time.Since(began); i != 0 || err != nil || late > 10*time.Second {
					t.Errorf("%s: %d, %v, after %v", name, i, err, late)
				}
			})
			l.Go(func(*loop.Thread) { c.keep() }) // when the first yields
		}
		l.Go(func(th *loop.Thread) {
			if i, err := th.AwaitAny(time.Millisecond, &yielder{times: 1 << 60}); i != -1 ||
				!errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("for ever: %d, %v", i, err)
			}
		})
		mustRun(t, l)
	})
}

// TestNilIsNeverReady: a source that is not there keeps its index, and nothing else.
func TestNilIsNeverReady(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			var none *loop.Timer
			if i, err := th.AwaitAny(-1, nil, none, th.After(0)); i != 2 || err != nil {
				t.Error(i, err)
			}
			if i, err := th.AwaitAny(time.Millisecond, nil, none); i != -1 ||
				err != loop.ErrDeadlineExceeded {
				t.Error(i, err)
			}
			want(t, th.AwaitAll(time.Millisecond, th.After(0), nil), loop.ErrDeadlineExceeded)
		})
		mustRun(t, l)
	})
}

// TestReadableFile: an os.File is awaited and read without holding the loop.
func TestReadableFile(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		r, w := must.Pipe(t)
		l.Go(func(th *loop.Thread) {
			readable := loop.ReadableFile(r)
			if i, err := th.AwaitAny(0, readable); i != -1 || err != loop.ErrDeadlineExceeded {
				t.Error(i, err)
			}
			th.Go(func(*loop.Thread) error { _, err := w.WriteString("hello"); return err })
			if _, err := th.AwaitAny(time.Minute, readable); err != nil {
				t.Error(err)
			}
			buf := make([]byte, 9)
			if n, err := r.Read(buf); string(buf[:n]) != "hello" || err != nil {
				t.Errorf("%q, %v", buf[:n], err)
			}
			r.Close()
			other, end, err := os.Pipe() // it has the number now
			if err != nil {
				t.Error(err)
				return
			}
			defer other.Close()
			defer end.Close()
			for _, closed := range []loop.Source{readable, loop.ReadableFile(r)} {
				if i, err := th.AwaitAny(time.Minute, closed); i != 0 || !errors.Is(err, unix.EBADF) {
					t.Error(i, err)
				}
			}
		})
		mustRun(t, l)
	})
}
