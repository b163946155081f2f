package conn_test

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestSpool: a body of any framing and size is there as a whole, twice, and leaves no file and no
// descriptor.
func TestSpool(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			body, n, err := req.Layer().Spool(1000)
			if err != nil {
				t.Error(err)
				return 500
			}
			first, err1 := io.ReadAll(body)
			_, err2 := body.Seek(0, io.SeekStart)
			second, err3 := io.ReadAll(body)
			_, inFile := body.(conn.TempFile)
			fmt.Fprint(resp, n, bytes.Equal(first, second), inFile, err1, err2, err3)
			return 200
		}})
		for _, row := range []struct {
			size   int
			inFile bool
		}{{0, false}, {1, false}, {999, false}, {1000, false}, {1001, true}, {200_000, true}} {
			want := fmt.Sprint(int64(row.size), true, row.inFile, nil, nil, nil)
			text := strings.Repeat("x", row.size)
			chunks := ""
			if row.size > 0 {
				chunks = fmt.Sprintf("%x\r\n%s\r\n", row.size, text)
			}
			for _, raw := range []string{
				fmt.Sprintf(
					"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", row.size,
					text),
				"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" +
					chunks + "0\r\n\r\n",
			} {
				if got := answers(t, strings.NewReader(s.Exchange(raw)),
					"POST")[0]; got.Text != want {
					t.Errorf("%d bytes: %q, want %q", row.size, got.Text, want)
				}
			}
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
}

// TestMaxSpool: beyond max_spool a body is answered with 503, without any other harm, and what was
// held is given back in whatever way requests end.
func TestMaxSpool(t *testing.T) {
	defer conn.SetLingerTime(time.Minute, time.Minute)() // until the client has sent what is refused
	run(t, func(t *testing.T, m mode) {
		const limit, size = 100_000, 60_000
		release := new(loop.Promise[int])
		s := start(t, m,
			conn.Config{Limits: conn.Limits{MaxSpool: limit}, Handler: byPath(map[string]conn.Handler{
				"/": hello,
				"/spool": func(req *conn.Request, resp *conn.Response) int {
					body, n, err := req.Layer().Spool(1000)
					if err != nil {
						return 418 // which is not what is sent
					}
					if req.Query().Has("hold") {
						_, _ = req.AwaitAny(-1, release)
					}
					k, err := io.Copy(io.Discard, body)
					fmt.Fprint(resp, n, k, err)
					return 200
				},
				"/panic": func(req *conn.Request, resp *conn.Response) int {
					if _, _, err := req.Layer().Spool(1000); err != nil {
						t.Error(err)
					}
					panic("on purpose")
				},
			})})
		s.Panics.Expect()
		post := func(target string) string {
			return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", target,
				size) + strings.Repeat("x", size)
		}
		holder := s.Dial()
		send(t, holder, post("/spool?hold=1"))
		s.Settled("a body is held", func(*loop.Loop) bool { return s.Server.Spooled() == size })

		c := s.Dial()
		if a := c.Do("POST", post("/spool")); a.StatusCode != 503 || a.Close == m.HTTP2 {
			t.Errorf("%v", a.Response)
		}
		c.Close()
		s.Dial().Do("GET", get)
		if n := s.Server.Spooled(); n != size {
			t.Errorf("%d bytes counted, want %d", n, size)
		}
		if n := strings.Count(s.Log.String(), "max_spool"); n != 2 { // of one line
			t.Errorf("the log:\n%s", s.Log)
		}
		release.Resolve(0)
		if a := holder.Answer("POST"); a.Text != fmt.Sprint(size, size, nil) {
			t.Errorf("%q", a.Text)
		}
		s.Settled("it is given back", func(*loop.Loop) bool { return s.Server.Spooled() == 0 })

		for range 3 {
			c := s.Dial()
			if a := c.Do("POST", post("/panic")); a.StatusCode != 500 {
				t.Error(a.Status)
			}
			c.Close()
			c = s.Dial()
			raw := post("/spool")
			send(t, c, raw[:len(raw)-1])
			s.Settled("most of it is held", func(*loop.Loop) bool { return s.Server.Spooled() > 0 })
			c.Close()
			s.Settled("it is given back", func(*loop.Loop) bool { return s.Server.Spooled() == 0 })
		}
	})
}

// TestStalledRequestIsCheap: a client that stalls within a head, or within a body that is being
// spooled, holds what has come up to a limit, and little else.
func TestStalledRequestIsCheap(t *testing.T) {
	ci.Without(t, invariants.Enabled || race.Enabled,
		"short reads make buffers grow in other steps, and the race detector has memory of its own")
	run(t, func(t *testing.T, m mode) {
		const n = 200
		for _, row := range []struct {
			begin string
			sent  int
			most  int64 // that may be held
		}{
			{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 65000\r\n\r\n", 5_000, 20 << 10},
			{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 65000\r\n\r\n", 16_000, 26 << 10},
			// in the file
			{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 65000\r\n\r\n", 60_000, 12 << 10},
			{"GET / HTTP/1.1\r\nHost: a\r\nX: ", 16_000, 26 << 10},
		} {
			s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
				_, _, _ = req.Layer().Spool(16 << 10)
				return 200
			}})
			at := must.Get(sysio.Sockaddr(netip.MustParseAddrPort(s.Addr)))(t)
			var clients [n]int // bare descriptors: their memory would count, too
			raw := []byte(row.begin + strings.Repeat("x", row.sent))
			before := leak.InUse()
			for i := range clients {
				c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
				if err == nil {
					err = unix.Connect(c, at)
				}
				if err == nil {
					_, err = unix.Write(c, raw)
				}
				if err != nil {
					t.Fatal(err)
				}
				clients[i] = c
			}
			s.Settled("all are under way", func(*loop.Loop) bool { return s.Active() == n })
			s.Settle()
			// Workers may still write to files, where what has come is held until then.
			var each int64
			wait.Until(t, fmt.Sprintf("a request of which %d bytes have come holds at most %d",
				row.sent, row.most), func() bool {
				each = (leak.InUse() - before) / n
				return each <= row.most
			})
			t.Logf("%d bytes sent: %d held", row.sent, each)
			for _, c := range clients {
				unix.Close(c)
			}
			s.Stop(0)
		}
	}, plain, direct)
}
