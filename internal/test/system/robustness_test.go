package system_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// strained is the variable that makes the test's binary the program strain.
const strained = "LWANGO_STRAINED"

// strain is a program whose handlers are hard on the scheduler.
func strain() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	lwango.Handle("/", func(_ *lwango.Request, resp *lwango.Response) int {
		fmt.Fprint(resp, runtime.GOMAXPROCS(0), " processors")
		return 200
	})
	lwango.Handle("/locked", func(req *lwango.Request, resp *lwango.Response) int {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before := unix.Gettid()
		if err := req.Sleep(5 * time.Millisecond); err != nil || unix.Gettid() != before {
			return 500
		}
		resp.WriteString("waited")
		return 200
	})
	lwango.Handle("/left-locked", func(_ *lwango.Request, resp *lwango.Response) int {
		runtime.LockOSThread()
		resp.WriteString("returned")
		return 200
	})
	lwango.Handle("/lock", holdLock)
	lwango.Handle("/spin", func(*lwango.Request, *lwango.Response) int { spin(); return 200 })
	lwango.Handle("/wait", func(req *lwango.Request, _ *lwango.Response) int {
		_ = req.Sleep(time.Hour)
		return 200
	})
	lwango.Handle("/threads", func(req *lwango.Request, resp *lwango.Response) int {
		fmt.Fprint(resp, req.Thread.Loop().Threads())
		return 200
	})
	lwango.Handle("/never", func(req *lwango.Request, resp *lwango.Response) int {
		err := req.Await(20*time.Millisecond, func(context.Context) error { select {} })
		switch {
		case errors.Is(err, loop.ErrNoWorker):
			resp.WriteString("no worker")
		case errors.Is(err, os.ErrDeadlineExceeded):
			resp.WriteString("gave up")
		}
		return 200
	})
	os.Exit(lwango.Run(context.Background(), ""))
}

// startStrained starts the program with a configuration.
func startStrained(t *testing.T, config string) *program.Server {
	t.Setenv(strained, "1")
	return program.Start(t, "-c", program.Configure(t, t.TempDir(), config))
}

// fetch asks on a connection of its own, and returns the body of an answer with status 200.
func fetch(s *program.Server, path string) (string, error) {
	client := http.Client{
		Transport: &http.Transport{DisableKeepAlives: true}, Timeout: wait.Patience,
	}
	resp, err := client.Get("http://" + s.Address + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != 200 {
		err = errors.New(resp.Status)
	}
	return string(body), err
}

// expect fails unless the body is as it should be.
func expect(t *testing.T, s *program.Server, path, want string) {
	t.Helper()
	if body, err := fetch(s, path); body != want || err != nil {
		t.Errorf("%s: %q, %v, want %q", path, body, err, want)
	}
}

// TestLockedHandler: with the handoff `channel` a handler may lock its OS thread and wait, or
// return. With `direct` either of them ends the process, as the documentation says.
func TestLockedHandler(t *testing.T) {
	t.Setenv("GOMAXPROCS", "1")
	t.Run("channel", func(t *testing.T) {
		s := startStrained(t, "handoff = \"channel\"\nthreads = 1")
		for range 3 {
			expect(t, s, "/locked", "waited")
			expect(t, s, "/left-locked", "returned")
		}
		expect(t, s, "/", "2 processors")
	})
	for _, path := range []string{"/locked", "/left-locked"} {
		t.Run("direct"+path, func(t *testing.T) {
			s := startStrained(t, "threads = 1")
			_, _ = fetch(s, path) // the answer may still go out
			code := s.End(t, 0)
			if code == 0 || !strings.Contains(s.Log(), "fatal error: coro") ||
				!strings.Contains(s.Log(), "UseHandoffChannelOrAwait") {
				t.Errorf("the process has ended with exit code %d", code)
			}
		})
	}
}

// TestProcessorsOfTheEnvironment: GOMAXPROCS says how many loops there are unless `threads` does,
// and there is a processor more than loops, also if there are more of them than CPUs.
func TestProcessorsOfTheEnvironment(t *testing.T) {
	for _, test := range []struct{ environment, threads, want string }{
		{"1", "0", "2 processors"},
		{"1", "9", "10 processors"},
		{"16", "0", "17 processors"},
		{"16", "1", "16 processors"},
	} {
		t.Run(test.environment+" and "+test.threads, func(t *testing.T) {
			t.Setenv("GOMAXPROCS", test.environment)
			s := startStrained(t, "threads = "+test.threads)
			for range 20 {
				expect(t, s, "/", test.want)
			}
		})
	}
}

// TestFunctionsThatNeverReturn: they cost their requests the limit of time, and later ones the
// workers. Nothing else has to wait, and the program ends in order.
func TestFunctionsThatNeverReturn(t *testing.T) {
	t.Setenv("GOMAXPROCS", "1")
	s := startStrained(t, "threads = 1\nworkers = 2")
	for range 2 {
		expect(t, s, "/never", "gave up")
	}
	for range 2 {
		expect(t, s, "/never", "no worker")
	}
	expect(t, s, "/", "2 processors")
	if code := s.End(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestClockJump: to a process that was stopped the time has jumped when it goes on, as to one whose
// machine was. What has arrived meanwhile counts, although its time is up.
func TestClockJump(t *testing.T) {
	if testing.Short() {
		t.Skip("lets a timeout pass")
	}
	const timeout = 2 * time.Second
	s := startStrained(t, "threads = 1\nkeep_alive_timeout = \"2s\"\nwatchdog = \"1s\"")
	busy, idle := dial(t, s.Address), dial(t, s.Address)
	defer busy.Close()
	defer idle.Close()
	for _, c := range []net.Conn{idle, busy} {
		must.Do(t, exchange(c, rawGet("/"), "processors"))
	}
	began := time.Now()
	must.Do(t, s.Signal(syscall.SIGSTOP))
	if _, err := io.WriteString(busy, rawGet("/")); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Until(began.Add(timeout + timeout/4)))
	must.Do(t, s.Signal(syscall.SIGCONT))
	var b [1]byte
	if n, err := busy.Read(b[:]); n != 1 {
		t.Errorf("no answer to what was sent in time: %v", err)
	}
	if n, err := idle.Read(b[:]); err != io.EOF {
		t.Errorf("the idle connection: %d, %v", n, err)
	}
	if strings.Contains(s.Log(), "held up") {
		t.Error("the watchdog blames code for the jump")
	}
}

// TestCrowdGivesUp: ten thousand clients that leave their requests at one moment leave nothing
// behind, and other requests are answered meanwhile.
func TestCrowdGivesUp(t *testing.T) {
	if testing.Short() {
		t.Skip("opens ten thousand connections")
	}
	const crowd = 10_000
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil || files.Cur < crowd+1000 {
		t.Skipf("descriptors: %d, %v", files.Cur, err)
	}
	s := startStrained(t,
		fmt.Sprintf("threads = 1\nmax_connections = %d\nmax_connections_per_address = -1", crowd+100))
	threads := func() (n int) {
		body, err := fetch(s, "/threads")
		if err == nil {
			n, err = strconv.Atoi(body)
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	own := threads()
	clients := make([]net.Conn, crowd)
	for i := range clients {
		clients[i] = dial(t, s.Address)
		must.Get(io.WriteString(clients[i], rawGet("/wait")))(t)
	}
	until := time.Now().Add(time.Minute)
	for threads() < own+crowd && time.Now().Before(until) {
	}
	for _, c := range clients {
		c.Close()
	}
	for threads() > own && time.Now().Before(until) {
	}
	if n := threads(); n > own {
		t.Errorf("%d threads are left, %d before", n, own)
	}
}
