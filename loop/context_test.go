package loop_test

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestBind: the end of a context ends the waits of a thread and of those that it has started, with
// an error that tells why, until it is released.
func TestBind(t *testing.T) {
	past := time.Unix(1, 0)
	left, leave := context.WithCancelCause(context.Background())
	leave(loop.ErrClientGone)
	for name, row := range map[string]struct {
		ctx  func() (context.Context, func())
		want []error // nil: the wait goes on
	}{
		"canceled": {func() (context.Context, func()) {
			return context.WithCancel(context.Background())
		}, []error{loop.ErrCanceled, context.Canceled}},
		"canceled with a cause": {func() (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(context.Background())
			return ctx, func() { cancel(io.ErrClosedPipe) }
		}, []error{loop.ErrCanceled, context.Canceled, io.ErrClosedPipe}},
		"deadline": {func() (context.Context, func()) {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			return ctx, func() { <-ctx.Done(); cancel() }
		}, []error{loop.ErrDeadlineExceeded, context.DeadlineExceeded, os.ErrDeadlineExceeded}},
		"deadline before": {func() (context.Context, func()) {
			ctx, cancel := context.WithDeadline(context.Background(), past)
			return ctx, cancel
		}, []error{loop.ErrDeadlineExceeded, context.DeadlineExceeded}},
		"the client": {func() (context.Context, func()) { return left, func() {} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				l.Go(func(th *loop.Thread) {
					ctx, end := row.ctx()
					b := th.Layer().Bind(ctx)
					outer := th.Layer().Bind(context.Background())
					long := time.Minute
					if row.want == nil {
						long = time.Millisecond
					}
					var errs []error
					wait := func(th *loop.Thread) error {
						errs = append(errs, th.Sleep(long))
						return nil
					}
					th.Go(wait)
					th.Go(func(th *loop.Thread) error { th.Go(wait); return nil })
					th.Yield()
					th.Yield()
					go end()
					_ = wait(th)
					_ = th.Join()
					_ = wait(th) // it is refused
					errs = append(errs, th.Await(long, func(ctx context.Context) error {
						if row.want == nil {
							return nil
						}
						<-ctx.Done()
						return ctx.Err()
					}))
					for _, err := range errs {
						for _, want := range row.want {
							if !errors.Is(err, want) {
								t.Errorf("%v, want %v", err, want)
							}
						}
						if row.want == nil && err != nil {
							t.Error(err)
						}
					}
					was := th.KeepWaiting(true)
					if err := th.Sleep(time.Millisecond); err != nil {
						t.Error("KeepWaiting:", err)
					}
					th.KeepWaiting(was)
					b.Release()
					if err := th.Sleep(time.Millisecond); err != nil {
						t.Error("released:", err)
					}
					outer.Release()
				})
				mustRun(t, l)
			})
		})
	}
}

// TestBindMembers: the end of a context ends the waits of threads that were started under it, also
// if it is released before they run, and no wait of those that were started before.
func TestBindMembers(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			const nap = 30 * time.Millisecond
			th.Go(func(th *loop.Thread) error {
				began := time.Now()
				err := th.Sleep(nap)
				if slept := time.Since(began); err != nil || slept < nap/2 {
					t.Errorf("started before: slept %v of %v, %v", slept, nap, err)
				}
				return nil
			})
			th.Yield()
			ctx, cancel := context.WithCancel(context.Background())
			b := th.Layer().Bind(ctx)
			wait := func(th *loop.Thread) error {
				if err := th.Sleep(time.Minute); !errors.Is(err, loop.ErrCanceled) {
					t.Error("started under it:", err)
				}
				return nil
			}
			th.Go(wait)
			th.Go(func(th *loop.Thread) error { th.Go(wait); return wait(th) })
			th.Yield()
			th.Yield()
			go cancel()
			_ = wait(th)
			b.Release()
			_ = th.Join()

			th.Go(func(th *loop.Thread) error {
				th.Yield()
				if err := th.Sleep(time.Millisecond); err != nil {
					t.Error("started before one that has ended:", err)
				}
				return nil
			})
			b = th.Layer().Bind(ctx)
			_ = th.Join()
			b.Release()
		})
		mustRun(t, l)
	})
}

// TestBindOwnSocket: a wait for the thread's own socket goes on.
func TestBindOwnSocket(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		var got int
		began := make(chan bool)
		c := serve(t, l, &task{run: func(b *task) coro.Code {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			bound := b.Thread.Layer().Bind(ctx)
			defer bound.Release()
			p := make([]byte, 8)
			_, _ = unix.Read(b.FD(), p)
			close(began)
			if err := b.WantRead(time.Minute); err != nil {
				t.Error(err)
			}
			got, _ = unix.Read(b.FD(), p)
			return coro.Abort
		}})
		wait := start(t, l)
		_, _ = c.Write([]byte("x"))
		<-began
		_, _ = c.Write([]byte("yz"))
		wait()
		c.Close()
		if got != 2 {
			t.Errorf("read %d bytes", got)
		}
	})
}
