package loop_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// idler is one end of a socket pair: a thread that is marked as idle while it is.
type idler struct {
	loop.Thread
	peer  int // the other end
	n     int
	ended *[]int
	run   func(t *loop.Thread)
	word  coro.Code
}

func (i *idler) Run(t *loop.Thread) coro.Code {
	var b [8]byte
	for {
		if n, err := unix.Read(t.FD(), b[:]); err == unix.EAGAIN {
			break
		} else if n <= 0 {
			return coro.Abort
		}
	}
	if i.run != nil {
		i.run(t)
	}
	t.Layer().MarkIdle(t.Loop().Time(), false)
	return i.word
}
func (i *idler) ClientGone() {}
func (i *idler) Ended()      { *i.ended = append(*i.ended, i.n) }

// newIdler attaches one. It is called on the loop, or before it runs.
func newIdler(t *testing.T, l *loop.Loop, n int, ended *[]int, run func(t *loop.Thread)) *idler {
	t.Helper()
	fds := must.Get(unix.Socketpair(unix.AF_UNIX,
		unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))(t)
	i := &idler{peer: fds[1], n: n, ended: ended, run: run, word: coro.WantRead}
	must.Do(t, l.Attach(&i.Thread, fds[0], i, time.Minute))
	t.Cleanup(func() { unix.Close(i.peer) })
	return i
}

// TestEndIdle ends idle threads, the one that has been idle longest first, and none at work.
func TestEndIdle(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		var ended []int
		if _, ok := l.Layer().IdleSince(); ok || l.Layer().EndIdle() {
			t.Error("an empty loop has something to give up")
		}
		release := new(loop.Promise[int])
		var all []*idler
		since0 := l.Time()
		for n := range 8 {
			all = append(all, newIdler(t, l, n, &ended, nil))
			all[n].Thread.Layer().MarkIdle(since0, false)
		}
		working := make(chan struct{})
		all[0].run = func(t *loop.Thread) { close(working); _, _ = t.AwaitAny(-1, release) }
		keep := newIdler(t, l, 99, &ended, nil) // keeps the loop running, and is not marked
		wait := start(t, l)
		must.Get(unix.Write(all[0].peer, []byte("x")))(t)
		<-working
		var since int64
		on(t, l, func() { since, _ = l.Layer().IdleSince() })
		if d := time.Since(time.UnixMilli(since)); d < -time.Second || d > 10*time.Second {
			t.Errorf("idle since %v ago", d)
		}
		on(t, l, func() {
			// What has been sent to 2 is not seen yet. The end of 3 is no work. 4 may be ended even with
			// input.
			all[4].Thread.Layer().MarkIdle(since0, true)
			if _, err := unix.Write(all[4].peer, []byte("x")); err != nil {
				t.Error(err)
			}
			if _, err := unix.Write(all[2].peer, []byte("x")); err != nil {
				t.Error(err)
			}
			if err := unix.Shutdown(all[3].peer, unix.SHUT_WR); err != nil {
				t.Error(err)
			}
			for range 3 {
				if !l.Layer().EndIdle() {
					t.Error("there is none to give up")
				}
			}
			if want := []int{1, 3, 4}; !slices.Equal(ended, want) {
				t.Errorf("ended: %v, want %v", ended, want)
			}
		})
		on(t, l, func() {}) // 2 has had its turn, and is idle again, the last
		on(t, l, func() { release.Resolve(0) })
		on(t, l, func() {})
		on(t, l, func() {
			for l.Layer().EndIdle() {
			}
			if want := []int{1, 3, 4, 5, 6, 7, 2, 0}; !slices.Equal(ended, want) {
				t.Errorf("ended: %v, want %v", ended, want)
			}
			if _, ok := l.Layer().IdleSince(); ok {
				t.Error("there is one left")
			}
			keep.Thread.Layer().Wake()
		})
		l.Stop(0)
		wait()
	})
}

// TestUnseenInputIsNoSilence: a thread whose peer has sent something is not ended by its idle time,
// although the loop has read the clock, and has not polled for events, since then.
func TestUnseenInputIsNoSilence(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		var ended []int
		ran := false
		sent := newIdler(t, l, 0, &ended, func(*loop.Thread) { ran = true })
		silent := newIdler(t, l, 1, &ended, nil)
		keep := newIdler(t, l, 2, &ended, nil)
		wait := start(t, l)
		on(t, l, func() {
			sent.Thread.Layer().IdleTimeout(time.Hour)
			silent.Thread.Layer().IdleTimeout(time.Hour)
			keep.Thread.Layer().IdleTimeout(-1)
			if _, err := unix.Write(sent.peer, []byte("x")); err != nil {
				t.Error(err)
			}
			loop.Jump(l, 2*time.Hour)
			if want := []int{1}; !slices.Equal(ended, want) {
				t.Errorf("ended: %v, want %v", ended, want)
			}
		})
		on(t, l, func() {})
		on(t, l, func() {
			if !ran {
				t.Error("the input was not seen")
			}
			keep.Thread.Layer().Wake()
		})
		l.Stop(0)
		wait()
	})
}

// TestIdlePlace: a thread that is used stays where it is for a second, and is behind the others
// then; one that ends in between leaves no trace.
func TestIdlePlace(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		var ended []int
		var all []*idler
		for n := range 5 {
			all = append(all, newIdler(t, l, n, &ended, nil))
		}
		begin := l.Time()
		for _, i := range all {
			i.Thread.Layer().MarkIdle(begin, false)
		}
		all[0].Thread.Layer().MarkIdle(begin.Add(500*time.Millisecond), false)
		all[1].Thread.Layer().MarkIdle(begin.Add(2*time.Second), false)
		wait := start(t, l)
		on(t, l, func() {
			// Its neighbour is another now.
			unix.Close(l.Layer().Deregister(all[3].Layer().Descriptor()))
			for l.Layer().EndIdle() {
			}
			if want := []int{0, 2, 4, 1}; !slices.Equal(ended, want) {
				t.Errorf("ended: %v, want %v", ended, want)
			}
		})
		l.Stop(0)
		wait()
	})
}

// TestSuspendAsLastWord: the task is run again when the time has passed, whatever comes meanwhile,
// and holds nothing.
func TestSuspendAsLastWord(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		var ended []int
		const pause = 50 * time.Millisecond
		i := newIdler(t, l, 0, &ended, nil)
		i.word = coro.Suspend
		i.run = func(th *loop.Thread) {
			th.KeepWaiting(true)
			th.Layer().IdleTimeout(pause)
			if _, err := unix.Write(i.peer, []byte("x")); err != nil {
				t.Error(err)
			}
			if err := unix.Shutdown(i.peer, unix.SHUT_WR); err != nil {
				t.Error(err)
			}
		}
		must.Do(t, l.Post(func() { i.Thread.Layer().Wake() }))
		time.Sleep(pause / 2) // what is done in the first turn counts from that, and not from New
		began := time.Now()
		wait := start(t, l)
		wait() // the second time, the end is there to be read
		if d := time.Since(began); d < pause-10*time.Millisecond || len(ended) != 1 {
			t.Errorf("run again after %v, want %v; %d have ended", d, pause, len(ended))
		}
	})
}

// TestSpareDescriptor: without a free descriptor a connection is still accepted, one at a time, and
// the listener neither spins nor waits.
func TestSpareDescriptor(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		fd := must.Get(loop.Listen("tcp", "127.0.0.1:0", false))(t)
		scarce := make(chan bool, 10)
		if _, err := l.Accept(fd, func(fd int, _ netip.AddrPort) {
			unix.Close(fd)
			scarce <- l.Layer().SpareInUse()
		}); err != nil {
			t.Fatal(err)
		}
		wait := start(t, l)
		at := must.Get(sysio.Sockaddr(loop.LocalAddr(fd)))(t)
		var clients []int // made while there are descriptors
		for range 7 {
			c := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
			t.Cleanup(func() { unix.Close(c) })
			clients = append(clients, c)
		}
		dial := func() {
			must.Do(t, unix.Connect(clients[0], at))
			clients = clients[1:]
		}
		dial()
		if <-scarce {
			t.Error("scarce, with descriptors to spare")
		}
		free := leak.Exhaust(t)
		for range 5 {
			dial()
			if !<-scarce {
				t.Error("not scarce, without a descriptor")
			}
		}
		free()
		dial()
		if <-scarce {
			t.Error("still scarce")
		}
		l.Stop(time.Second)
		wait()
	})
}
