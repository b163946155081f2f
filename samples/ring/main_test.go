package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/files"
	"github.com/lwango/lwango/internal/test/headrows"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/refuse"
	testserver "github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

const forbidden = "LWANGO_FORBIDDEN_RING"

func TestMain(m *testing.M) {
	program.Main(m, func() {
		if os.Getenv(forbidden) != "" {
			refuse.Refuse(unix.EPERM, unix.SYS_IO_URING_SETUP)
		}
		main()
	})
}

// start runs the program, and returns it also as the server that tests of files know.
func start(t *testing.T, args ...string) (*program.Server, *testserver.Server) {
	t.Helper()
	within(t, func(*Context) {}) // or the test is left out
	p := program.Start(t, args...)
	return p, &testserver.Server{T: t, Addr: p.Address, Mode: modes.Plain}
}

// TestFiles: what holds for the module serve_files.
func TestFiles(t *testing.T) {
	p, s := start(t, "-r", files.Tree(t))
	files.Paths(t, s, nil)
	files.Methods(t, s)
	files.Conditions(t, s)
	files.SingleRange(t, s)
	files.IfRange(t, s)
	files.SeveralRanges(t, s)
	files.TooManyRanges(t, s)
	if code := p.End(t, syscall.SIGTERM); code != 0 || strings.Contains(p.Log(), "WARN") {
		t.Errorf("exit code %d, logged:\n%s", code, p.Log())
	}
}

// TestHeads: the raw tables of the parser, whole and byte by byte, also behind a good request.
func TestHeads(t *testing.T) {
	_, s := start(t, "-text", "hello")
	const good = "GET /first HTTP/1.1\r\nHost: first\r\n\r\n"
	for _, before := range []string{"", good} {
		for _, stepwise := range []bool{false, true} {
			exchange := func(raw string) (statuses []int) {
				c := s.Dial()
				defer c.Close()
				if stepwise && len(raw) < 500 {
					for i := range raw {
						c.Send(raw[i : i+1])
					}
				} else if _, err := io.WriteString(c, raw); err != nil && !errors.Is(err, unix.ECONNRESET) &&
					!errors.Is(err, unix.EPIPE) {
					t.Error(err)
				}
				_ = c.TCP().CloseWrite()
				for {
					method := ""
					if len(statuses) > 0 || before == "" {
						method, _, _ = strings.Cut(strings.TrimPrefix(raw, before), " ")
					}
					answer, err := http.ReadResponse(c.R, &http.Request{Method: strings.TrimSpace(method)})
					if err != nil {
						return statuses
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					statuses = append(statuses, answer.StatusCode)
				}
			}
			first := []int{200}[:len(before)/len(good)]
			for _, row := range headrows.Bad {
				want := append(first[:len(first):len(first)], row.Want.Status)
				if got := exchange(before + row.Raw); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%.100q, stepwise %v: %v, want %v", before+row.Raw, stepwise, got, want)
				}
			}
			for _, row := range headrows.Good {
				want := 405
				switch method, _, _ := strings.Cut(row.Want, " "); method {
				case "GET", "HEAD":
					want = 200
				case "OPTIONS":
					want = 204
				}
				all := append(first[:len(first):len(first)], want)
				if got := exchange(before + row.Raw); fmt.Sprint(got) != fmt.Sprint(all) {
					t.Errorf("%.100q, stepwise %v: %v, want %v", before+row.Raw, stepwise, got, all)
				}
			}
		}
	}
}

// TestHeadTooLarge: what is too large is refused before it is complete.
func TestHeadTooLarge(t *testing.T) {
	_, s := start(t, "-text", "hello")
	for raw, status := range map[string]int{
		"GET /" + strings.Repeat("x", 100_000):                                    414,
		"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 100_000):         431,
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello":            405,
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + big(1e6): 200,
	} {
		c := s.Dial()
		if answer := c.Do("GET", raw); answer.StatusCode != status || !answer.Close {
			t.Errorf("%.40q: %v", raw, answer.Status)
		}
	}
}

func big(n int) string { return strings.Repeat("0123456789", n/10) }

// TestPipelined: answers come in the order of the requests, also where they are more than a block.
func TestPipelined(t *testing.T) {
	_, s := start(t, "-r", files.Tree(t))
	c := s.Dial()
	paths := []string{"/big.bin", "/a.txt", "/nothing", "/empty.txt", "/small.bin"}
	var raw strings.Builder
	for i := range 100 {
		fmt.Fprintf(&raw, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", paths[i%len(paths)])
	}
	go func() { _, _ = io.WriteString(c, raw.String()) }()
	want := []string{files.Big, "0123456789", "404 Not Found\n", "", files.Big[:16<<10]}
	for i := range 100 {
		if a := c.Answer("GET"); a.Text != want[i%len(want)] {
			t.Fatalf("answer %d: %s, %.40q", i, a.Status, a.Text)
		}
	}
	// An HTTP/1.0 client gets what it asks for, and the end.
	a := c.Do("GET", "GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
	if a.Header.Get("Connection") != "keep-alive" {
		t.Errorf("HTTP/1.0: %v", a.Header)
	}
	if a := c.Do("GET", "GET /a.txt HTTP/1.0\r\n\r\n"); a.Text != "0123456789" || !a.Close {
		t.Errorf("HTTP/1.0: %v", a.Header)
	}
	c.Ends()
}

// TestTimes: how long a client may keep silent, and not read.
func TestTimes(t *testing.T) {
	root := t.TempDir()
	must.Write(t, filepath.Join(root, "long"), "")
	must.Do(t, os.Truncate(filepath.Join(root, "long"), 64<<20))
	_, s := start(t, "-r", root, "-idle", "100ms", "-head", "300ms")
	s.Dial().Ends() // says nothing
	c := s.Dial()
	c.Do("GET", "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n")
	c.Ends() // idle
	c = s.Dial()
	if a := c.Do("GET", "GET / HTTP/1.1\r\n"); a.StatusCode != 408 {
		t.Errorf("half a head: %s", a.Status)
	}
	c.Ends()
	c = s.Dial()
	ends := make(chan error)
	go func() { // a byte now and then does not help
		began := time.Now()
		for _, b := range []byte(big(10_000)) {
			if _, err := c.Write([]byte{b}); err != nil {
				ends <- nil
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		ends <- fmt.Errorf("the server still reads a head after %v", time.Since(began))
	}()
	if a := c.Answer("GET"); a.StatusCode != 408 {
		t.Errorf("a slow head: %s", a.Status)
	}
	if err := <-ends; err != nil {
		t.Error(err)
	}
	p, s := start(t, "-r", root, "-stall", "200ms") // its log is empty
	c = s.DialSmall()
	c.Send("GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
	p.Logged(t, "connection ended.*timeout")
	if n, err := io.Copy(io.Discard, c); n > 32<<20 {
		t.Errorf("who does not read gets %d bytes, %v", n, err)
	}
}

// TestBound: there are no more connections than there may be; one that is idle makes room, and
// those that come meanwhile wait.
func TestBound(t *testing.T) {
	root := files.Tree(t)
	must.Do(t, os.Truncate(filepath.Join(root, "big.bin"), 64<<20))
	p, s := start(t, "-r", root, "-most", "3")
	ask := func(c *testserver.Client) {
		t.Helper()
		if a := c.Do("GET", "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"); a.StatusCode != 200 {
			t.Error(a.Status)
		}
	}
	oldest := s.Dial()
	ask(oldest)
	for range 5 {
		ask(s.Dial())
	}
	oldest.Ends()
	var busy []*testserver.Client
	for range 3 {
		c := s.DialBuffer(testserver.SlowReader)
		c.Send("GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n")
		if _, err := c.R.Peek(1); err != nil {
			t.Fatal(err)
		}
		busy = append(busy, c)
	}
	late := s.Dial()
	late.Send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n")
	p.Logged(t, "no room for another connection")
	if a := busy[0].Answer("GET"); len(a.Text) != 64<<20 {
		t.Errorf("%d bytes", len(a.Text))
	}
	busy[0].Ends() // as there is no room, it makes some
	if a := late.Answer("GET"); a.StatusCode != 200 {
		t.Error(a.Status)
	}
}

// TestAllPlaces: when all places are taken nobody loses one, until another client comes.
func TestAllPlaces(t *testing.T) {
	_, s := start(t, "-text", "hello", "-most", "3")
	clients := []*testserver.Client{s.Dial(), s.Dial(), s.Dial()}
	ask := func(c *testserver.Client) {
		t.Helper()
		if a := c.Do("GET", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); a.Text != "hello" || a.Close {
			t.Errorf("%s, %v", a.Status, a.Header)
		}
	}
	for range 3 {
		for _, c := range clients {
			ask(c)
		}
	}
	another := s.Dial()
	ask(another)
	clients[0].Ends() // it was idle for the longest time
	for range 3 {
		for _, c := range append(clients[1:], another) {
			ask(c)
		}
	}
}

// TestNoDescriptors: when the table of descriptors is full, accepting pauses, and goes on.
func TestNoDescriptors(t *testing.T) {
	p, s := start(t, "-r", files.Tree(t))
	var limit unix.Rlimit
	must.Do(t, unix.Prlimit(p.PID(), unix.RLIMIT_NOFILE, nil, &limit))
	low := limit
	low.Cur = 30
	must.Do(t, unix.Prlimit(p.PID(), unix.RLIMIT_NOFILE, &low, nil))
	var clients []*testserver.Client
	for range 60 {
		clients = append(clients, s.Dial())
	}
	p.Logged(t, "accepting pauses.*too many open files")
	must.Do(t, unix.Prlimit(p.PID(), unix.RLIMIT_NOFILE, &limit, nil))
	last := clients[len(clients)-1]
	if a := last.Do("GET", "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"); a.StatusCode != 200 {
		t.Error(a.Status)
	}
}

// TestStop: at a signal idle connections end, answers under way have their time, and then the
// program ends, whatever clients do.
func TestStop(t *testing.T) {
	root := files.Tree(t)
	must.Do(t, os.Truncate(filepath.Join(root, "big.bin"), 16<<20))
	for _, c := range []struct {
		grace string
		reads bool
	}{{"1m", true}, {"100ms", false}} {
		p, s := start(t, "-r", root, "-grace", c.grace)
		idle, half := s.Dial(), s.Dial()
		idle.Do("GET", "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n")
		half.Send("GET /a.txt HT")
		busy := s.DialBuffer(testserver.SlowReader) // has an answer when half a head has come
		busy.Send("GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n")
		if _, err := busy.R.Peek(1); err != nil {
			t.Fatal(err)
		}
		const next = "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"
		busy.Send(next) // has no answer, and must not cut the one under way
		must.Do(t, p.Signal(syscall.SIGTERM))
		p.Logged(t, "msg=stopping connections=3")
		idle.Ends()
		if c.reads {
			rest := "TP/1.1\r\nHost: a\r\n\r\n" + strings.Repeat(next, 2000) // more than is read at once
			if a := half.Do("GET", rest); a.Text != "0123456789" || !a.Close {
				t.Errorf("%s, %v", a.Status, a.Header)
			}
			half.Ends()
			if a := busy.Answer("GET"); len(a.Text) != 16<<20 {
				t.Errorf("%d bytes", len(a.Text))
			}
			busy.Ends()
		}
		if code := p.End(t, 0); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

// TestRude: a thousand clients that are slow, send half a request, reset, never read, or send many
// requests at once, do not touch those that behave.
func TestRude(t *testing.T) {
	root := files.Tree(t)
	must.Write(t, filepath.Join(root, "long"), "")
	must.Do(t, os.Truncate(filepath.Join(root, "long"), 8<<20))
	p, s := start(t, "-r", root, "-most", "1200", "-idle", "2s", "-head", "1s", "-stall", "1s")
	const get = "GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n"
	rude := []func(c *net.TCPConn){
		func(c *net.TCPConn) { // slow
			for _, b := range []byte(get[:20]) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		},
		func(c *net.TCPConn) { // half a head
			_, _ = io.WriteString(c, get[:25])
			_, _ = io.Copy(io.Discard, c)
		},
		func(c *net.TCPConn) { // a reset, in the middle of an answer
			_, _ = io.WriteString(c, get)
			_, _ = c.Read(make([]byte, 100))
			_ = c.SetLinger(0)
		},
		func(c *net.TCPConn) { // never reads
			_ = c.SetReadBuffer(4 << 10)
			_, _ = io.WriteString(c, strings.ReplaceAll(get, "big.bin", "long"))
			time.Sleep(2 * time.Second)
		},
		func(c *net.TCPConn) { // pipelines, and leaves
			_, _ = io.WriteString(c, strings.Repeat(get, 100))
			_, _ = io.CopyN(io.Discard, c, 300_000)
		},
		func(c *net.TCPConn) { // says nothing
			_, _ = io.Copy(io.Discard, c)
		},
		func(c *net.TCPConn) { // speaks something else
			_, _ = io.WriteString(c, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
			_, _ = io.Copy(io.Discard, c)
		},
		func(c *net.TCPConn) {}, // leaves at once
	}
	var clients sync.WaitGroup
	for i := range 1000 {
		clients.Go(func() {
			c, err := net.DialTimeout("tcp", p.Address, wait.Patience)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(wait.Patience))
			rude[i%len(rude)](c.(*net.TCPConn))
		})
	}
	for range 10 {
		clients.Go(func() {
			c, err := net.DialTimeout("tcp", p.Address, wait.Patience)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(wait.Patience))
			if _, err := io.WriteString(c, get); err != nil {
				t.Error(err)
				return
			}
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Error(err)
				return
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil || string(body) != files.Big {
				t.Errorf("%d bytes, %v", len(body), err)
			}
		})
	}
	clients.Wait()
	if a := s.Request("GET /a.txt", nil, ""); a.Text != "0123456789" {
		t.Errorf("afterwards: %s", a.Status)
	}
	if code := p.End(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestShorterFile: a file that becomes shorter while it is sent ends the connection: the length was
// promised.
func TestShorterFile(t *testing.T) {
	file := filepath.Join(files.Tree(t), "big.bin")
	must.Do(t, os.Truncate(file, 64<<20))
	p, s := start(t, "-r", filepath.Dir(file))
	c := s.DialBuffer(testserver.SlowReader)
	c.Send("GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n")
	answer := must.Get(http.ReadResponse(c.R, nil))(t)
	must.Do(t, os.Truncate(file, 0))
	if n, err := io.Copy(io.Discard, answer.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("after %d bytes: %v", n, err)
	}
	p.Logged(t, "connection ended.*EOF")
}

// TestCurl: what other programs think of the answers.
func TestCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		ci.Lacks(t, "curl")
	}
	root := files.Tree(t)
	_, s := start(t, "-r", root)
	url := "http://" + s.Addr + "/"
	for _, args := range [][]string{
		{url + "big.bin"}, {"--http1.0", url + "big.bin"}, {"-r", "0-9", url + "big.bin"},
		{url + "a.txt", url + "big.bin", url + "a.txt"}, {"-L", url + "sub"},
	} {
		out, err := exec.Command(curl, append([]string{"-sS", "--max-time", "60"}, args...)...).Output()
		want := map[string]string{"-r": files.Big[:10], "-L": "<h1>sub</h1>",
			url + "a.txt": "0123456789" + files.Big + "0123456789"}[args[0]]
		if want == "" {
			want = files.Big
		}
		if err != nil || !bytes.Equal(out, []byte(want)) {
			t.Errorf("%q: %d bytes, %v", args, len(out), err)
		}
	}
}

// TestFails: what cannot work is said.
func TestFails(t *testing.T) {
	within(t, func(*Context) {})
	none := filepath.Join(t.TempDir(), "none")
	program.Fails(t, []string{"-most", "0"}, 2, "-h shows all flags")
	program.Fails(t, []string{"-l", "127.0.0.1:0", "-r", none}, 1, none, "no such file")
	program.Fails(t, []string{"-l", "203.0.113.1:1"}, 1, "cannot listen on 203.0.113.1:1")
}

// TestForbidden: where io_uring is forbidden, the program says so.
func TestForbidden(t *testing.T) {
	t.Setenv(forbidden, "1")
	program.Fails(t, []string{"-l", "127.0.0.1:0"}, 1, "this process may not use io_uring",
		"kernel.io_uring_disabled")
}
