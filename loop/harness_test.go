package loop_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { leak.Main(m) }

// run gives every handoff the same test.
func run(t *testing.T, f func(t *testing.T, l *loop.Loop)) {
	runLogging(t, f, func(*logtext.Panics) {})
}

// runPanicking is run for a test whose threads panic.
func runPanicking(t *testing.T, f func(t *testing.T, l *loop.Loop)) {
	runLogging(t, f, (*logtext.Panics).Expect)
}

func runLogging(t *testing.T, f func(t *testing.T, l *loop.Loop), judge func(*logtext.Panics)) {
	for _, h := range []coro.Handoff{coro.Channel, coro.Direct} {
		t.Run(h.String(), func(t *testing.T) {
			logger, panics := logtext.Watch(t, nil)
			judge(panics)
			l := must.Get(loop.New(loop.Options{Handoff: h, Logger: logger}))(t)
			f(t, l)
		})
	}
}

func mustRun(t *testing.T, l *loop.Loop) {
	t.Helper()
	must.Do(t, l.Run())
}

// start runs l on a goroutine and returns a function that waits for its end.
func start(t *testing.T, l *loop.Loop) (wait func()) {
	done := make(chan error, 1)
	go func() { done <- l.Run() }()
	return func() {
		t.Helper()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the loop does not end")
		}
	}
}

// on calls f on the loop and waits for it.
func on(t *testing.T, l *loop.Loop, f func()) {
	t.Helper()
	done := make(chan struct{})
	must.Do(t, l.Post(func() { f(); close(done) }))
	<-done
}

// task is a test's thread.
type task struct {
	loop.Thread
	run   func(b *task) coro.Code
	left  int
	ended chan struct{}
}

func (b *task) Run(*loop.Thread) coro.Code { return b.run(b) }

func (b *task) ClientGone() { b.left++ }

func (b *task) Ended() {
	if b.ended != nil {
		close(b.ended)
	}
}

// serve attaches a thread to one end of a TCP connection and returns the other end.
func serve(t *testing.T, l *loop.Loop, b *task) *net.TCPConn {
	t.Helper()
	c := connect(t, l, b)
	t.Cleanup(func() { c.Close() })
	return c
}

// connect is serve for connections that outlive the subtest.
func connect(t *testing.T, l *loop.Loop, b *task) *net.TCPConn {
	t.Helper()
	fd, err := loop.Listen("tcp", "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	b.ended = make(chan struct{})
	addr := loop.LocalAddr(fd)
	var ln *loop.Listener
	ln, err = l.Accept(fd, func(fd int, remote netip.AddrPort) {
		if err := l.Attach(&b.Thread, fd, b, -1); err != nil {
			t.Error(err)
		}
		ln.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	c := must.Dial(t, "tcp", addr.String())
	return c.(*net.TCPConn)
}

// idleOnce serves a client that has sent a byte by a task that takes it, is idle then, and ends
// when it runs again. runs counts that.
func idleOnce(t *testing.T, l *loop.Loop) (b *task, c net.Conn, runs *int) {
	runs = new(int)
	b = &task{run: func(b *task) coro.Code {
		if *runs++; *runs == 1 {
			_, _ = unix.Read(b.FD(), make([]byte, 1))
			return coro.WantRead
		}
		return coro.Abort
	}}
	c = serve(t, l, b)
	_, _ = c.Write([]byte("x"))
	return b, c, runs
}
