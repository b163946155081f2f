package fastcgi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestMemoryOfWaiting: requests that wait for a slow application hold no buffers, whatever it has
// answered before. All have a stack of 4 KiB, which is just enough to send a long answer. That
// leaves the connection its buffer for small pieces, of 4 KiB.
func TestMemoryOfWaiting(t *testing.T) {
	for output, limit := range map[int]int64{0: 14 << 10, 30000: 14 << 10, 200000: 18 << 10} {
		t.Run(fmt.Sprint("after ", output), func(t *testing.T) { testWaiting(t, output, limit) })
	}
}

func testWaiting(t *testing.T, output int, limit int64) {
	const n = 1000
	answer := ""
	for text := okHead + strings.Repeat("x", output); output > 0 && text != ""; {
		piece := text[:min(len(text), 1<<15)]
		answer += fcgitest.Header(1, 6, 1, len(piece), 0) + piece
		text = text[len(piece):]
	}
	// In production the application is a process of its own. Here it shares the process of the
	// test, so it must hold no memory itself.
	ln := must.Get(net.Listen("unix", t.TempDir()+"/s"))(t)
	defer ln.Close()
	upstream := make([]net.Conn, 0, n)
	p := serveFiles(t, "/", []string{"unix:" + ln.Addr().String()},
		map[string]string{"sub/x.php": ""},
		func(s *fastcgi.Settings) { s.ReadTimeout = time.Minute })
	clients := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range append(clients, upstream...) {
			c.Close()
		}
	}()
	buf := make([]byte, 4096)
	ask := func() {
		c := p.Dial()
		clients = append(clients, c)
		fmt.Fprintf(c,
			"GET /sub/x.php HTTP/1.1\r\nHost: a\r\nUser-Agent: a usual client of some length\r\n"+
				"Accept: */*\r\n\r\n")
		u := must.Get(ln.Accept())(t)
		if _, err := u.Read(buf); err != nil {
			t.Fatal(err)
		}
		upstream = append(upstream, u)
		go io.WriteString(u, answer)
		for left := output; left > 0; { // the head and the chunks' do not matter here
			k := must.Get(c.Read(buf[:min(left, len(buf))]))(t)
			left -= k
		}
	}
	for range 20 {
		ask()
	}
	before := memory()
	for range n {
		ask()
	}
	each := int64(memory()-before) / n
	t.Logf("%d bytes each, with those of the test's own two connections", each)
	// The invariants tag cuts writes short. Then the rest of a large answer is held for a while,
	// and a part of its buffer stays. The limit has no room for that.
	if each > limit && !race.Enabled && !invariants.Enabled {
		t.Errorf("%d bytes for a request that waits", each)
	}
}

func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// TestMemoryOfSilent: clients that announce a body and send none of it hold no buffers.
func TestMemoryOfSilent(t *testing.T) {
	const n, limit = 200, 16 << 10
	for _, buffering := range []bool{true, false} {
		// Its connections stay in its queue, where they need no memory of this process.
		socket := filepath.Join(t.TempDir(), "s")
		ln := must.Get(net.Listen("unix", socket))(t)
		defer ln.Close()
		var asked atomic.Int32
		p := route(t, registry(), "/", []string{"unix:" + socket}, nil, func(s *fastcgi.Settings) {
			s.CheckFile, s.RequestBuffering = false, buffering
		})
		p.Server = module.Start(t, modes.Direct, "/",
			func(req *conn.Request, resp *conn.Response) int {
				asked.Add(1)
				return p.handler(req, resp)
			})
		ask := func(n int) {
			for range n {
				before := asked.Load()
				fmt.Fprintf(p.Dial(),
					"POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\n")
				wait.Until(t, "it is asked", func() bool { return asked.Load() > before })
			}
		}
		ask(20)
		before := memory()
		ask(n)
		p.Settle()
		each := int64(memory()-before) / n
		t.Logf("%d bytes each, with those of the test's own connection", each)
		if each > limit && !race.Enabled {
			t.Errorf("%d bytes for a client that sends nothing", each)
		}
		p.Stop(0)
		must.Do(t, ln.(*net.UnixListener).SetDeadline(time.Now().Add(time.Millisecond)))
		c, err := ln.Accept()
		if err == nil {
			c.Close()
		}
		if asked := err == nil; asked == buffering {
			t.Errorf("request_buffering = %v, and the application is asked: %v", buffering, asked)
		}
	}
}

// TestMemoryOfStalled: an upload of 65 KB that stands still holds 24 KiB at most, wherever it does,
// including stack, input and the bytes of the body. It holds most where it has used all memory of a
// body, and no file yet.
func TestMemoryOfStalled(t *testing.T) {
	const n, limit, length = 300, 24 << 10, 65000
	for _, chunked := range []bool{false, true} {
		for _, sent := range []int{1000, 8<<10 + 1, 12 << 10, 12<<10 + 1, length - 1} {
			t.Run(fmt.Sprintf("chunked %v, after %d", chunked, sent), func(t *testing.T) {
				p := serve(t, []string{"unix:/nobody"}, nil)
				stall := func(n int) {
					for range n {
						c := p.Dial()
						head := fmt.Sprintf("Content-Length: %d\r\n\r\n", length)
						if chunked {
							head = fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", length)
						}
						_, err := io.WriteString(c,
							"POST /x.php HTTP/1.1\r\nHost: a\r\n"+head+strings.Repeat("x", sent))
						if err != nil {
							t.Fatal(err)
						}
					}
					wait.Until(t, "all is read", allRead)
				}
				stall(20)
				before := memory()
				stall(n)
				each := int64(memory()-before) / n
				t.Logf("%d bytes each, with those of the test's own connection", each)
				if each > limit && !race.Enabled {
					t.Errorf("%d bytes for an upload that stands still", each)
				}
			})
		}
	}
}

// allRead reports that no bytes are on their way in any socket of this process.
func allRead() bool {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return false
	}
	for _, e := range fds {
		fd, _ := strconv.Atoi(e.Name())
		// Another kind of descriptor has none.
		for _, queue := range []uint{unix.TIOCINQ, unix.TIOCOUTQ} {
			if waiting, err := unix.IoctlGetInt(fd, queue); err == nil && waiting > 0 {
				what, _ := os.Readlink("/proc/self/fd/" + e.Name())
				if strings.HasPrefix(what, "socket:") {
					return false
				}
			}
		}
	}
	return true
}

// BenchmarkHello measures a small answer, including the application and the client.
func BenchmarkHello(b *testing.B) {
	for _, keep := range []bool{false, true} {
		b.Run(fmt.Sprint("keep ", keep), func(b *testing.B) {
			up := fcgitest.Start(b, "unix", answers("hello"))
			p := serve(b, []string{up.Address}, func(s *fastcgi.Settings) { s.KeepConn = keep })
			c := p.Dial()
			r := bufio.NewReader(c)
			b.ReportAllocs()
			for b.Loop() {
				fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
				if g := read(r, "GET"); g.body != "hello" {
					b.Fatal(g)
				}
			}
		})
	}
}
