package loop_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestUnseenEventIsInTime: a wait does not report that its time is over if what it waits for has
// come, although the loop has read the clock, and has not polled for events, since then.
func TestUnseenEventIsInTime(t *testing.T) {
	eachFD(t, fdWaits, func(t *testing.T, th *loop.Thread, wait fdWait) {
		s := openPair(t)
		defer unix.Close(s[1])
		fill(s[0])
		passUnseen(t, th.Loop(), func() { _, _ = unix.Write(s[1], []byte("x")) })
		want(t, wait(th, s[0], time.Hour), nil)
		want(t, th.CloseFD(s[0]), nil)
	})
	eachFD(t, fdCalls, func(t *testing.T, th *loop.Thread, call fdWait) {
		s := openPair(t)
		defer unix.Close(s[1])
		fill(s[0])
		passUnseen(t, th.Loop(), func() {
			_, _ = unix.Write(s[1], []byte("x"))
			empty(s[1])
		})
		want(t, call(th, s[0], time.Hour), nil)
		want(t, th.CloseFD(s[0]), nil)
	})
}

// TestUnseenEventOfASocket is for sockets that the loop knows, and for an end as well as for data.
func TestUnseenEventOfASocket(t *testing.T) {
	for name, send := range map[string]func(peer int){
		"data": func(peer int) { _, _ = unix.Write(peer, []byte("x")) },
		"end":  func(peer int) { _ = unix.Shutdown(peer, unix.SHUT_WR) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				own, open := openPair(t), openPair(t)
				defer unix.Close(own[1])
				defer unix.Close(open[1])
				b := &task{run: func(b *task) coro.Code {
					var d loop.Shared
					if err := l.Layer().Register(&d, open[0]); err != nil {
						t.Error(err)
					}
					test := func(d *loop.Descriptor, peer int) {
						passUnseen(t, l, func() { send(peer) })
						want(t, d.AwaitRead(&b.Thread, time.Hour), nil)
						if !d.Unread() {
							t.Error("a stream would not read")
						}
					}
					test(&d.Descriptor, open[1])
					l.Layer().CloseDescriptor(&d.Descriptor)
					test(b.Thread.Layer().Descriptor(), own[1])
					return coro.Abort
				}}
				must.Do(t, l.Attach(&b.Thread, own[0], b, -1))
				b.Thread.Layer().Wake()
				mustRun(t, l)
			})
		})
	}
}

// passUnseen lets something happen, and two hours pass, when the calling thread waits.
func passUnseen(t *testing.T, l *loop.Loop, happen func()) {
	t.Helper()
	if err := l.Post(func() {
		happen()
		loop.Jump(l, 2*time.Hour)
	}); err != nil {
		t.Error(err)
	}
}
