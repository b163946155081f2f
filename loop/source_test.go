package loop_test

import (
	"errors"
	"os"
	"testing"
	"time"

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

func BenchmarkAwaitAny(b *testing.B) {
	l, err := loop.New(loop.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var p [2]int
	_ = unix.Pipe2(p[:], unix.O_NONBLOCK)
	l.Go(func(th *loop.Thread) {
		one := make([]byte, 1)
		timer, promise, sub := th.After(time.Hour), new(loop.Promise[int]), new(loop.Promise[string])
		readable := loop.Readable(p[0])
		ctls := l.Stats().Ctls
		b.ReportAllocs()
		for b.Loop() {
			_, _ = unix.Write(p[1], one)
			if i, err := th.AwaitAny(time.Minute, readable, timer, promise, sub); i != 0 || err != nil {
				b.Fatal(i, err)
			}
			_, _ = unix.Read(p[0], one)
		}
		b.ReportMetric(float64(l.Stats().Ctls-ctls)/float64(b.N), "epoll_ctl/op")
	})
	if err := l.Run(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkAwaitRead(b *testing.B) {
	for _, mode := range []string{"armed", "asked"} {
		b.Run(mode, func(b *testing.B) {
			l, err := loop.New(loop.Options{})
			if err != nil {
				b.Fatal(err)
			}
			var p [2]int
			_ = unix.Pipe2(p[:], unix.O_NONBLOCK)
			l.Go(func(th *loop.Thread) {
				one, buf := make([]byte, 1), make([]byte, 2)
				_ = th.AwaitRead(p[0], 0)
				ctls := l.Stats().Ctls
				b.ReportAllocs()
				for b.Loop() {
					_, _ = unix.Write(p[1], one)
					if mode == "asked" {
						if err := th.AwaitRead(p[0], time.Minute); err != nil {
							b.Fatal(err)
						}
					}
					_, _ = th.ReadFD(p[0], buf, time.Minute)
				}
				b.ReportMetric(float64(l.Stats().Ctls-ctls)/float64(b.N), "epoll_ctl/op")
			})
			if err := l.Run(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
