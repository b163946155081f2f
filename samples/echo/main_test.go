package main

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test's binary be the sample, so that the test runs what `go run` would.
func TestMain(m *testing.M) {
	if os.Getenv("ECHO_SAMPLE") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// start runs the program until it listens. stop has it end in order.
func start(t *testing.T, args ...string) (addr string, stop func(os.Signal)) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-l", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), "ECHO_SAMPLE=1", "GOMAXPROCS=3", "GORACE=atexit_sleep_ms=0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	if !lines.Scan() {
		t.Fatalf("ended before it listened: %v", cmd.Wait())
	}
	m := regexp.MustCompile(`msg=listening address=(127\.0\.0\.1:[1-9]\d*)$`).FindStringSubmatch(lines.Text())
	if m == nil {
		t.Fatalf("first line: %s", lines.Text())
	}
	return m[1], func(sig os.Signal) {
		t.Helper()
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			t.Error("logged:", lines.Text())
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("stopped by %v: %v", sig, err)
		}
	}
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return c.(*net.TCPConn)
}

// random is data that is not the same anywhere.
func random(n int) []byte {
	p := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1: byte(n)}).Read(p)
	return p
}

func TestEcho(t *testing.T) {
	for _, handoff := range []string{"channel", "direct"} {
		t.Run(handoff, func(t *testing.T) {
			addr, stop := start(t, "-handoff", handoff)

			// A client that never reads must not be in anybody's way, nor one that says nothing.
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
			stop(map[string]os.Signal{"channel": syscall.SIGTERM, "direct": syscall.SIGINT}[handoff])
		})
	}
}

// The address is in use, or makes no sense: it says so and fails.
func TestEchoCannotListen(t *testing.T) {
	for _, args := range [][]string{{"-l", "nowhere"}, {"-l", "203.0.113.1:1"}, {"-handoff", "none"}} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		cmd.Env = append(os.Environ(), "ECHO_SAMPLE=1")
		if out, err := cmd.CombinedOutput(); err == nil || len(out) == 0 {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}
