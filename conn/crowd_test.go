package conn_test

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestCrowdsLeaveInShortTurns: however many connections end at the same moment, the loop looks at
// its other threads every few milliseconds. What counts is the processor time between two turns of
// another thread, in which nothing else runs: that of a busy machine's other processes does not.
func TestCrowdsLeaveInShortTurns(t *testing.T) {
	ci.Without(t, invariants.Enabled || race.Enabled, "the checks take most of the time")
	const (
		clients = 2000
		longest = 5 * time.Millisecond
	)
	for _, c := range []struct {
		name  string
		leave func(l *loop.Loop, clients []int) // called on the loop, which sees all at once
	}{
		{"the clients close", func(_ *loop.Loop, clients []int) { hangUp(clients) }},
		{"the clients send and close", func(_ *loop.Loop, clients []int) {
			for _, fd := range clients {
				_, _ = unix.Write(fd, []byte(get))
			}
			hangUp(clients)
		}},
		{"a stop", func(l *loop.Loop, _ []int) { l.Stop(time.Minute) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it would run beside the loop
			path := t.TempDir() + "/s"
			fd := must.Get(loop.Listen("unix", path, false))(t)
			l := must.Get(loop.New(loop.Options{
				Handoff: coro.Direct, Logger: logtext.Quiet,
			}))(t)
			server := conn.NewServer(conn.Config{Handler: hello, Limits: conn.Limits{KeepAliveTimeout: time.Minute, MaxConnections: -1},
				Logger: logtext.Quiet})
			must.Get(server.Serve(l, conn.Listener{FD: fd}))(t)
			ended := make(chan error, 1)
			go func() { ended <- l.Run() }()
			var fds []int
			defer func() {
				for _, fd := range fds {
					_ = unix.Close(fd)
				}
			}()
			var buf [1 << 10]byte
			for range clients {
				fd := must.Get(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
				fds = append(fds, fd)
				must.Do(t, unix.Connect(fd, &unix.SockaddrUnix{Name: path}))
				must.Get(unix.Write(fd, []byte(get)))(t)
				if n, err := unix.Read(fd, buf[:]); n <= 0 {
					t.Fatal(n, err)
				}
			}
			done := make(chan time.Duration, 1)
			must.Do(t, l.Post(func() {
				c.leave(l, fds)
				l.Go(func(th *loop.Thread) {
					worst := time.Duration(0)
					for last := leak.ProcessorTime(); server.Active() > 0; {
						th.Yield()
						now := leak.ProcessorTime()
						worst = max(worst, now-last)
						last = now
					}
					done <- worst
				})
			}))
			if worst := <-done; worst > longest {
				t.Errorf("%d connections: another thread has waited for %v", clients, worst)
			}
			l.Stop(time.Second)
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func hangUp(fds []int) {
	for _, fd := range fds {
		_ = unix.Shutdown(fd, unix.SHUT_RDWR)
	}
}
