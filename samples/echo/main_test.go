package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
)

func TestMain(m *testing.M) { program.Main(m, main) }

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	return must.Dial(t, "tcp", addr).(*net.TCPConn)
}

// random is data that is not the same anywhere.
func random(n int) []byte {
	p := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1: byte(n)}).Read(p)
	return p
}

func TestEcho(t *testing.T) {
	t.Setenv("GOMAXPROCS", "3") // the number of its loops
	for handoff, signal := range map[string]syscall.Signal{"channel": syscall.SIGTERM,
		"direct": syscall.SIGINT} {
		t.Run(handoff, func(t *testing.T) {
			s := program.Start(t, "-handoff", handoff)
			addr := s.Address

			// A client that never reads must not hold up others, nor one that sends nothing.
			deaf := dial(t, addr)
			_ = deaf.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
			if n, err := deaf.Write(make([]byte, 64<<20)); err == nil {
				t.Errorf("%d bytes accepted, and nobody read their echo", n)
			}
			_ = dial(t, addr)

			var clients sync.WaitGroup
			for i := range 20 {
				clients.Go(func() {
					c := dial(t, addr)
					for _, n := range []int{1, 2, 1000, 64 << 10, 200_000} { // to and fro
						want := random(n + i)
						go func() { _, _ = c.Write(want) }()
						got := make([]byte, n+i)
						if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
							t.Errorf("message of %d bytes: %v", n+i, err)
							return
						}
					}
					want := random(2<<20 + i) // in one piece, and the end of input behind it
					go func() {
						_, _ = c.Write(want)
						_ = c.CloseWrite()
					}()
					if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, want) {
						t.Errorf("%d bytes and the end: got %d, %v", len(want), len(got), err)
					}
				})
			}
			clients.Wait()
			deaf.Close()
			if code := s.End(t, signal); code != 0 {
				t.Errorf("stopped by %v: exit code %d", signal, code)
			}
			if log := s.Log(); strings.Count(log, "\n") != 3 { // it listens, stops, and has stopped
				t.Errorf("logged:\n%s", log)
			}
		})
	}
}

// If it cannot listen, or does not know the handoff, it says so and fails.
func TestEchoCannotListen(t *testing.T) {
	for _, args := range [][]string{{"-l", "nowhere"}, {"-l", "203.0.113.1:1"},
		{"-handoff", "none"}} {
		program.Fails(t, args, 1, args[1])
	}
}
