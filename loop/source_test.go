package loop_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
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
			_, _ = th.ReadFD(r, make([]byte, 9), 0)
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
			if i, err := th.AwaitAny(time.Millisecond, sources...); i != -1 || !errors.Is(err, os.ErrDeadlineExceeded) {
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
			_, err = p.Await(th, time.Second)
			var pe *loop.PanicError
			if !errors.As(err, &pe) || pe.Value != "on purpose" {
				t.Errorf("panic: %v", err)
			}
			if err := th.Await(func() error { panic(boom) }, time.Second); !errors.Is(err, boom) {
				t.Errorf("panic off the loop: %v", err)
			}
		})
		mustRun(t, l)
	})
}

// BenchmarkAwaitAny is a wait for a descriptor, a timer, a promise and a subscription, which is what ends it. The loop
// itself publishes, in a turn of its own: a turn, an epoll_wait and a handoff there and back are part of it.
//
// "turn" is the same without the wait: what a thread that only yields takes, with the publisher beside it.
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

// bench runs f on a loop of its own, and counts the calls of epoll_ctl and the processor's time, which other programs
// on the machine do not blur as much.
func bench(b *testing.B, h coro.Handoff, f func(th *loop.Thread)) {
	l, err := loop.New(loop.Options{Handoff: h})
	if err != nil {
		b.Fatal(err)
	}
	l.Go(func(th *loop.Thread) {
		b.ReportAllocs()
		ctls, used := l.Stats().Ctls, cpuTime()
		f(th)
		b.ReportMetric(float64(cpuTime()-used)/float64(b.N), "cpu-ns/op")
		b.ReportMetric(float64(l.Stats().Ctls-ctls)/float64(b.N), "epoll_ctl/op")
	})
	if err := l.Run(); err != nil {
		b.Fatal(err)
	}
}

func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAwaitRead is a byte through a pipe, the thread waiting before it is written, by the loop itself.
//
//	armed  ReadFD finds the pipe empty, waits and reads: two reads and a wait without epoll_ctl
//	asked  a wait and a read of what there is: the next wait has to ask epoll
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
							_, _ = th.ReadFD(r, buf, time.Minute)
						} else {
							_ = th.AwaitRead(r, time.Minute)
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
