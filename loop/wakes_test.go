package loop_test

import (
	"testing"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// joined is a Task with a socket of its own and another one, which it closes at its end.
type joined struct {
	own, other int
	shared     loop.Shared
	read       bool // and not write: what it waits for at its own socket
	calls      int
	got        chan string
}

func (j *joined) Run(t *loop.Thread) coro.Code {
	j.calls++
	b := make([]byte, 10)
	for {
		n, errno := j.shared.Recv(b)
		if errno != 0 {
			break
		}
		if n == 0 {
			t.Loop().Layer().CloseDescriptor(&j.shared.Descriptor)
			return coro.Abort
		}
		j.got <- string(b[:n])
	}
	if j.shared.WakeOnReady(t, true, false) {
		j.got <- "over"
		return coro.Abort
	}
	if j.read {
		return coro.WantRead
	}
	return coro.Suspend
}

func (j *joined) ClientGone() {}
func (j *joined) Ended()      { close(j.got) }

// TestWakes: an idle thread, which waits for its own socket or for nothing, is called for what
// comes to another one, and holds no coroutine between two calls.
func TestWakes(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		for _, read := range []bool{true, false} {
			own, other := openPair(t), openPair(t)
			j := &joined{own: own[0], other: other[0], read: read, got: make(chan string, 10)}
			l.Go(func(th *loop.Thread) {
				defer unix.Close(own[1])
				must.Do(t, l.Layer().Register(&j.shared, other[0]))
				t2 := new(loop.Thread)
				must.Do(t, l.Attach(t2, own[0], j, -1))
				t2.Layer().Wake()
				for _, text := range []string{"one", "two"} {
					poll(th)
					if n := l.Stats().Working; n > 2 { // this thread, of each of the two cases
						t.Errorf("%d coroutines work", n)
					}
					_, _ = unix.Write(other[1], []byte(text))
					poll(th)
					got := ""
					for len(j.got) > 0 { // with the invariants tag reads are short
						got += <-j.got
					}
					if got != text {
						t.Errorf("got %q, want %q", got, text)
					}
				}
				unix.Close(other[1])
				poll(th)
				if _, more := <-j.got; more || l.Threads() == 0 {
					t.Error("the end has not come")
				}
			})
		}
		mustRun(t, l)
	})
}
