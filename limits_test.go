package lwango_test

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/stream"
)

// TestLimitsOfTime: a limit that is given to a wait means the same everywhere. A negative one is
// none; 0 does not wait, but takes what is there.
func TestLimitsOfTime(t *testing.T) {
	t.Parallel()
	const soon = 20 * time.Millisecond
	// A server that answers no one before soon, and what else is ready then.
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	slow := httptest.NewServer(nil)
	defer slow.Close()
	later := func(th *loop.Thread) *loop.Promise[int] {
		return loop.Go(th, func(th *loop.Thread) (int, error) { return 1, th.Sleep(soon) })
	}
	now := new(loop.Promise[int])
	now.Resolve(1)
	var hub pubsub.Hub
	waits := []struct {
		name  string
		wait  func(th *loop.Thread, d time.Duration) error
		ready func(th *loop.Thread) error // the wait with 0 for what is there; nil: there is no such
	}{
		{"Thread.AwaitAny", func(th *loop.Thread, d time.Duration) error {
			_, err := th.AwaitAny(d, later(th))
			return err
		}, func(th *loop.Thread) error {
			_, err := th.AwaitAny(0, now)
			return err
		}},
		{"Thread.AwaitAll", func(th *loop.Thread, d time.Duration) error {
			return th.AwaitAll(d, later(th))
		}, func(th *loop.Thread) error { return th.AwaitAll(0, now) }},
		{"Promise.Await", func(th *loop.Thread, d time.Duration) error {
			_, err := later(th).Await(th, d)
			return err
		}, func(th *loop.Thread) error {
			_, err := now.Await(th, 0)
			return err
		}},
		{"Collect", func(th *loop.Thread, d time.Duration) error {
			_, errs := loop.Collect(th, d, later(th))
			return errs[0]
		}, func(th *loop.Thread) error {
			_, errs := loop.Collect(th, 0, now)
			return errs[0]
		}},
		{"First", func(th *loop.Thread, d time.Duration) error {
			_, err := loop.First(th, d, later(th))
			return err
		}, func(th *loop.Thread) error {
			_, err := loop.First(th, 0, now)
			return err
		}},
		{"Within", func(th *loop.Thread, d time.Duration) error {
			return th.Within(d, func() error { return th.Sleep(soon) })
		}, func(th *loop.Thread) error {
			return th.Within(0, func() error { return th.AwaitAll(-1, now) })
		}},
		{"Await", func(th *loop.Thread, d time.Duration) error {
			return th.Await(d, func(ctx context.Context) error {
				select {
				case <-time.After(soon):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}, nil},
		{"Mutex.Lock", func(th *loop.Thread, d time.Duration) error {
			var m loop.Mutex
			m.TryLock()
			th.Go(func(th *loop.Thread) error {
				err := th.Sleep(soon)
				m.Unlock()
				return err
			})
			return m.Lock(th, d)
		}, func(th *loop.Thread) error { return new(loop.Mutex).Lock(th, 0) }},
		{"ReadFD", func(th *loop.Thread, d time.Duration) error {
			r, w := must.Pipe(t)
			time.AfterFunc(soon, func() { w.Close() })
			_, err := th.AwaitAny(d, loop.ReadableFile(r))
			return err
		}, nil},
		{"Subscription.Receive", func(th *loop.Thread, d time.Duration) error {
			sub := hub.Topic("t").Subscribe(th, pubsub.Options{})
			time.AfterFunc(soon, func() { hub.Topic("t").Publish(nil) })
			_, err := sub.Receive(d)
			return err
		}, nil},
		{"stream.Dial", func(th *loop.Thread, d time.Duration) error {
			c, err := stream.Dial(th, d, "tcp", ln.Addr().String())
			if err == nil {
				err = c.Close()
			}
			return err
		}, nil},
		{"client.Get", func(th *loop.Thread, d time.Duration) error {
			_, err := client.Get(th, d, slow.URL)
			return err
		}, nil},
		{"websocket.Dialer.Dial", func(th *loop.Thread, d time.Duration) error {
			_, _, err := new(websocket.Dialer).Dial(th, d,
				strings.Replace(slow.URL, "http", "ws", 1))
			if _, refused := errors.AsType[*websocket.HandshakeError](err); refused {
				return nil // it has an answer
			}
			return err
		}, nil},
	}
	for _, w := range waits {
		t.Run(w.name, func(t *testing.T) {
			l := must.Get(loop.New(loop.Options{}))(t)
			l.Go(func(th *loop.Thread) {
				if err := w.wait(th, -1); err != nil {
					t.Errorf("-1: %v", err)
				}
				if err := w.wait(th, 0); !errors.Is(err, loop.ErrDeadlineExceeded) {
					t.Errorf("0: %v", err)
				}
				if w.ready != nil {
					if err := w.ready(th); err != nil {
						t.Errorf("0, for what is there: %v", err)
					}
				}
			})
			must.Do(t, l.Run())
		})
	}
}
