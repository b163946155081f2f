package loop_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// actor is a thread that does whatever its random numbers say, with others that do the same.
type actor struct {
	t     *testing.T
	l     *loop.Loop
	rand  *rand.Rand
	stage *stage
}

// stage is what all actors of a loop share. The promises and subscriptions are settled from
// outside.
type stage struct {
	mu       sync.Mutex
	promises []*loop.Promise[int]
	subs     []*signal
}

func (s *stage) promise() *loop.Promise[int] {
	p := new(loop.Promise[int])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promises = append(s.promises, p)
	return p
}

func (s *stage) sub() *signal {
	p := new(signal)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs = append(s.subs, p)
	return p
}

// settle settles some of what there is. Any goroutine calls it.
func (s *stage) settle(r *rand.Rand) {
	s.mu.Lock()
	promises, subs := s.promises, s.subs
	s.promises, s.subs = nil, nil
	s.mu.Unlock()
	for _, p := range promises {
		switch r.IntN(4) {
		case 0:
			p.Reject(errBoom)
		case 1: // it is never kept
		default:
			p.Resolve(1)
		}
	}
	for _, sub := range subs {
		if r.IntN(4) > 0 {
			sub.set()
		}
	}
}

func (a *actor) short() time.Duration { return time.Duration(a.rand.IntN(3000)) * time.Microsecond }

// allowed reports errors that a wait may end with.
func (a *actor) allowed(what string, err error, others ...error) {
	for _, e := range append(others, nil, loop.ErrDeadlineExceeded, loop.ErrCanceled, loop.ErrExited,
		errBoom) {
		if errors.Is(err, e) || err == e {
			return
		}
	}
	a.t.Errorf("%s: %v", what, err)
}

func (a *actor) act(th *loop.Thread, depth int) error {
	for range 1 + a.rand.IntN(6) {
		switch began, d := time.Now(), a.short(); a.rand.IntN(12) {
		case 0, 1:
			err := th.Sleep(d)
			if took := time.Since(began); err == nil && took < d {
				a.t.Errorf("Sleep of %v ended after %v", d, took)
			}
			a.allowed("Sleep", err)
		case 2, 3:
			a.pipe(th)
		case 4, 5, 6:
			a.any(th)
		case 7:
			err := th.Await(a.short(), func(context.Context) error {
				if d > time.Millisecond {
					time.Sleep(d)
				}
				if d%7 == 0 {
					panic(errBoom)
				}
				return nil
			})
			a.allowed("Await", err)
		case 8:
			th.Yield()
		case 9, 10:
			if depth < 3 {
				a.allowed("Scope", th.Scope(func() error {
					for range a.rand.IntN(4) {
						if a.rand.IntN(2) == 0 {
							th.Go(func(th *loop.Thread) error { return a.act(th, depth+1) })
						} else {
							loop.Go(th, func(th *loop.Thread) (int, error) { return 1, a.act(th, depth+1) })
						}
					}
					if a.rand.IntN(3) == 0 {
						_ = th.Sleep(a.short())
						th.Cancel()
					}
					return nil
				}))
			}
		case 11:
			if depth > 0 {
				switch a.rand.IntN(6) {
				case 0:
					return errBoom
				case 1:
					panic(errBoom)
				case 2:
					runtime.Goexit()
				}
			}
		}
	}
	return nil
}

// pipe waits for a pipe of its own, or for both halves of a pair with a child.
func (a *actor) pipe(th *loop.Thread) {
	s, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		a.t.Error(err)
		return
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			unix.Close(s[1])
			_ = th.CloseFD(s[0])
		}
	}
	defer end()
	if a.rand.IntN(2) == 0 {
		_, _ = unix.Write(s[1], []byte("x"))
	}
	a.allowed("AwaitRead", th.AwaitRead(a.short(), s[0]))
	_ = th.Scope(func() error {
		p := loop.Go(th, func(th *loop.Thread) (int, error) {
			n, err := th.ReadFD(a.short(), s[0], make([]byte, 8))
			return n, err
		})
		if a.rand.IntN(3) == 0 {
			th.Yield()
			if a.rand.IntN(2) == 0 {
				_, _ = unix.Write(s[1], []byte("y"))
			} else {
				end()
			}
		}
		_, _ = p.Await(th, a.short())
		return nil
	})
}

// any waits for a mix, and looks whether it is told the truth.
func (a *actor) any(th *loop.Thread) {
	r, w, err := osPipe()
	if err != nil {
		a.t.Error(err)
		return
	}
	defer unix.Close(w)
	defer th.CloseFD(r)
	ch := make(chan int, 1)
	promise, sub, timer, channed := a.stage.promise(), a.stage.sub(), th.After(a.short()),
		loop.FromChan(ch)
	began, d := time.Now(), a.short()
	written := false
	sources := []loop.Source{promise, sub, timer, channed, loop.Readable(r),
		loop.Call(th, func() (int, error) {
			if d > 2*time.Millisecond {
				ch <- 1
			}
			return 2, nil
		})}
	a.rand.Shuffle(len(sources), func(i, j int) { sources[i], sources[j] = sources[j], sources[i] })
	if a.rand.IntN(2) == 0 {
		sources = sources[:1+a.rand.IntN(len(sources)-1)]
	}
	if a.rand.IntN(2) == 0 {
		written = true
		_, _ = unix.Write(w, []byte("x"))
	}
	wait := d
	if a.rand.IntN(8) == 0 {
		wait = 0
	}
	if a.rand.IntN(4) == 0 {
		err := th.AwaitAll(wait, sources...)
		a.allowed("AwaitAll", err)
		if err == nil {
			for i := range sources {
				a.ready(sources[i], i, written)
			}
		}
		return
	}
	i, err := th.AwaitAny(wait, sources...)
	a.allowed("AwaitAny", err)
	if err == nil {
		a.ready(sources[i], i, written)
	} else if took := time.Since(began); errors.Is(err, os.ErrDeadlineExceeded) && took < wait {
		a.t.Errorf("AwaitAny of %v ended after %v", wait, took)
	}
}

func (a *actor) ready(s loop.Source, i int, written bool) {
	if !s.Ready() {
		a.t.Errorf("source %d, a %T, is not ready", i, s)
	}
	if _, ok := s.(*loop.Readiness); ok && !written {
		a.t.Errorf("source %d: an empty pipe can be read", i)
	}
	if c, ok := s.(*loop.Chan[int]); ok {
		if v, ok := c.Value(); v != 1 || !ok {
			a.t.Errorf("source %d: channel gave %d, %v", i, v, ok)
		}
	}
}

func osPipe() (r, w int, err error) {
	var p [2]int
	err = unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC)
	return p[0], p[1], err
}

// TestStress has threads do everything at once, ends them in the middle of it, and sees that
// nothing was early, untrue or left behind. The seed is in the subtest's name.
func TestStress(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				stages := new(stage)
				for i := range uint64(30) {
					a := &actor{t: t, l: l, stage: stages, rand: rand.New(rand.NewPCG(seed, i))}
					l.Go(func(th *loop.Thread) {
						for !l.Stopping() { // a thread that is not killed has to end
							_ = th.Scope(func() error { return a.act(th, 0) })
						}
					})
				}
				quit := make(chan struct{})
				var settlers sync.WaitGroup
				for i := range uint64(2) {
					settlers.Go(func() {
						r := rand.New(rand.NewPCG(seed, 100+i))
						for {
							stages.settle(r)
							select {
							case <-quit:
								return
							case <-time.After(200 * time.Microsecond):
							}
						}
					})
				}
				wait := start(t, l)
				resumes := func() (n int64) {
					on(t, l, func() { n = l.Stats().Resumes })
					return n
				}
				for began := time.Now(); resumes() < 4000 && time.Since(began) < 3*time.Second; {
				}
				l.Stop(time.Duration(seed) * time.Millisecond)
				wait()
				close(quit)
				settlers.Wait()
				if left := loop.Left(l); left != nil {
					t.Errorf("left with the loop: %v", left)
				}
			})
		})
	}
}
