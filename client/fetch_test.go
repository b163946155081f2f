package client_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/refuse"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// onThread runs f on a thread of a loop and waits for its end.
func onThread(t testing.TB, f func(th *loop.Thread)) {
	t.Helper()
	l := loops.Start(t, modes.Direct, nil, nil)
	done := make(chan bool)
	l.Go(0, func(th *loop.Thread) {
		defer close(done)
		f(th)
	})
	<-done
}

// script starts a server whose connections each run f.
func script(t testing.TB, f func(c net.Conn, r *bufio.Reader)) (address string, open *atomic.Int32) {
	t.Helper()
	ln := must.Listen(t)
	open = new(atomic.Int32)
	var running sync.WaitGroup
	var mu sync.Mutex
	conns := make(map[net.Conn]bool) // nil at the end
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if conns == nil {
				c.Close()
			} else {
				conns[c] = true
			}
			mu.Unlock()
			open.Add(1)
			running.Go(func() {
				_ = c.SetDeadline(time.Now().Add(wait.Patience))
				f(c, bufio.NewReader(c))
				mu.Lock()
				delete(conns, c)
				mu.Unlock()
				c.Close()
				open.Add(-1)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range conns { // that clients keep
			c.Close()
		}
		conns = nil
		mu.Unlock()
		running.Wait()
	})
	return ln.Addr().String(), open
}

// answer is a script: the same bytes for each request; then the end.
func answer(raw string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, r *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			if _, err := io.WriteString(c, raw); err != nil || !strings.HasPrefix(raw, "HTTP/1.1 200 K") {
				return
			}
		}
	}
}

// get asks for a URL and reads the body.
func get(th *loop.Thread, c *client.Client, url string, limit time.Duration) (string, error) {
	resp, err := c.Get(th, limit, url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.Status, " ", string(body)), err
}

const kept = "HTTP/1.1 200 K\r\nContent-Length: 5\r\n\r\nhello"

// TestFaults: what may be wrong with an answer, and the kind of the error.
func TestFaults(t *testing.T) {
	const head, chunks = "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, tt := range []struct {
		name, raw string
		want      string
		err       error
	}{
		{"length", head + "Content-Length: 5\r\n\r\nhello", "200 hello", nil},
		{"chunks", chunks + "2\r\nhe\r\n3\r\nllo\r\n0\r\nT: u\r\n\r\n", "200 hello", nil},
		{"until the end", head + "\r\nhello", "200 hello", nil},
		{"none", "HTTP/1.1 204 No\r\n\r\n", "204 ", nil},
		{"interim", "HTTP/1.1 103 E\r\n\r\n" + head + "Content-Length: 0\r\n\r\n", "200 ", nil},
		{"nothing", "", "", client.ErrCut},
		{"two lengths", head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "", client.ErrProtocol},
		{"length and chunks", head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			"", client.ErrProtocol},
		{"no HTTP", "SSH-2.0-OpenSSH_9.2\r\n", "", client.ErrProtocol},
		{"bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", "", client.ErrProtocol},
		{"gigantic head", head + "X: " + strings.Repeat("x", 200_000), "", client.ErrHeadSize},
		{"interims for ever", strings.Repeat("HTTP/1.1 103 E\r\n\r\n", 1000), "", client.ErrInterim},
		{"unasked upgrade", "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "",
			client.ErrProtocol},
		{"chunk's size", chunks + "2\r\nhe\r\nx\r\nllo\r\n0\r\n\r\n", "200 he", client.ErrProtocol},
		{"chunk's end", chunks + "2\r\nhello", "200 he", client.ErrProtocol},
		{"endless body", head + "\r\n" + strings.Repeat("x", 1<<20), "", client.ErrTooLarge},
		{"long chunk", chunks + "7fffffffffffffff\r\n" + strings.Repeat("x", 1<<20), "", client.ErrTooLarge},
		{"long body", head + "Content-Length: 9999999\r\n\r\n", "", client.ErrTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr, open := script(t, answer(tt.raw))
			onThread(t, func(th *loop.Thread) {
				var c client.Client
				resp, err := c.Do(th, wait.Patience, &client.Request{URL: "http://" + addr, MaxBody: 100_000})
				got := ""
				if err == nil {
					var body []byte
					body, err = io.ReadAll(resp.Body)
					if got = fmt.Sprint(resp.Status, " ", string(body)); len(body) > 100_000 {
						t.Error(len(body), "bytes")
					}
				}
				if !errors.Is(err, tt.err) || tt.want != "" && got != tt.want {
					t.Errorf("have %.80q, %v; want %q, %v", got, err, tt.want, tt.err)
				}
			})
			wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
		})
	}
}

// TestCut: answers that end at each of their bytes, whole and byte by byte.
func TestCut(t *testing.T) {
	for _, raw := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		for n := range len(raw) + 1 {
			addr, _ := script(t, func(c net.Conn, r *bufio.Reader) {
				if _, err := http.ReadRequest(r); err == nil {
					for i := range n {
						io.WriteString(c, raw[i:i+1])
					}
				}
			})
			onThread(t, func(th *loop.Thread) {
				got, err := get(th, new(client.Client), "http://"+addr, wait.Patience)
				if n == len(raw) && (err != nil || got != "200 hello") {
					t.Error(n, got, err)
				}
				if n < len(raw) && !errors.Is(err, client.ErrCut) {
					t.Errorf("%q: %q, %v", raw[:n], got, err)
				}
			})
		}
	}
}

// TestStall: a server that says nothing more ends the request when its time is over, wherever that
// is. Nothing stays open.
func TestStall(t *testing.T) {
	for _, raw := range []string{"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"} {
		addr, open := script(t, func(c net.Conn, r *bufio.Reader) {
			io.WriteString(c, raw)
			io.Copy(io.Discard, r)
		})
		onThread(t, func(th *loop.Thread) {
			err := stalled(func(limit time.Duration) error {
				_, err := get(th, new(client.Client), "http://"+addr, limit)
				return err
			})
			if !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, client.ErrConnect) {
				t.Errorf("%q: %v", raw, err)
			}
		})
		wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
	}
}

// TestSlowReader: the limit also ends a body that never makes its reader wait.
func TestSlowReader(t *testing.T) {
	addr, open := script(t, func(c net.Conn, r *bufio.Reader) {
		http.ReadRequest(r)
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		for {
			if _, err := c.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	onThread(t, func(th *loop.Thread) {
		err := stalled(func(limit time.Duration) error {
			resp, err := client.Do(th, limit, &client.Request{URL: "http://" + addr, MaxBody: 1 << 40})
			for err == nil {
				if _, err = resp.Body.Read(make([]byte, 1<<10)); err == nil {
					err = th.Sleep(time.Millisecond) // meanwhile the socket is full
				}
			}
			return err
		})
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
	wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
}

// TestNoConnection: errors before a byte was sent.
func TestNoConnection(t *testing.T) {
	nobody := refuse.Address(t)
	silent, _ := script(t, func(c net.Conn, r *bufio.Reader) { io.Copy(io.Discard, r) })
	plain, _ := script(t, answer(kept))
	onThread(t, func(th *loop.Thread) {
		for _, tt := range []struct {
			url     string
			limit   time.Duration
			connect bool
			text    string
		}{
			{"http://" + nobody, wait.Patience, true, "connection refused"},
			{"http://nobody.invalid/", wait.Patience, true, "nobody.invalid"},
			{"https://" + silent, 50 * time.Millisecond, true, "timeout"},
			{"https://" + plain, 10 * time.Second, true, "tls handshake: "},
			{"http://" + nobody, -1, true, "timeout"},
			{"ftp://a/", time.Second, false, "expected http:// or https://, with a host and without a user"},
			{"/path", time.Second, false, "expected http:// or https://"},
			{"http://u:p@a/", time.Second, false, "http://u:xxxxx@a/: expected http://"},
			{"http://a b/", time.Second, false, "invalid character"},
			{"http://a:0/", time.Second, false, "expected a port between 1 and 65535"},
			{"http://:/", time.Second, false, "with a host"},
			{"http://unix:8080/", time.Second, false, "a host with the name unix can have no port"},
			{"https://unix:8080/", time.Second, false, "a host with the name unix can have no port"},
			{"http://nobody.invalid:/", wait.Patience, true, "nobody.invalid"},
			{"http://a/\r\nX: y", time.Second, false, "invalid control character"},
		} {
			_, err := client.Get(th, tt.limit, tt.url)
			if err == nil || errors.Is(err, client.ErrConnect) != tt.connect ||
				!strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s: %v", tt.url, err)
			}
		}
	})
}

// TestRequests: what a server sees.
func TestRequests(t *testing.T) {
	var at string
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to, ok := strings.CutPrefix(r.URL.Path, "/to"); ok {
			w.Header().Set("Location", to)
			w.WriteHeader(303)
			return
		}
		if r.URL.Path == "/elsewhere" {
			w.Header().Set("Location", strings.Replace(at, "127.0.0.1", "localhost", 1)+"/")
			w.WriteHeader(307)
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %d %.5s %s", r.Method, r.RequestURI, len(body), body, r.Header.Get("Authorization"))
	}))
	defer o.Close()
	at = o.URL
	with := func(name, value string) (h conn.Header) { h.Add(name, value); return h }
	onThread(t, func(th *loop.Thread) {
		for _, tt := range []struct {
			r    client.Request
			want string
		}{
			{client.Request{}, "200 GET / 0  "},
			{client.Request{URL: "/a b?c d=é"}, "200 GET /a%20b?c%20d=%C3%A9 0  "},
			{client.Request{Method: "POST", URL: "/x", Body: []byte(strings.Repeat("hello", 1<<20))},
				"200 POST /x 5242880 hello "},
			{client.Request{URL: "/", Header: with("Authorization", "b")}, "200 GET / 0  b"},
			{client.Request{Method: "HEAD"}, "200 "},
			{client.Request{URL: "/to/x"}, "303 "},
			{client.Request{URL: "/to/x", Follow: 1}, "200 GET /x 0  "},
			{client.Request{URL: "/to/to/x", Follow: 1}, "303 "},
			{client.Request{URL: "/to/to/x", Follow: 2, Method: "POST", Body: []byte("b")}, "200 GET /x 0  "},
			{client.Request{URL: "/elsewhere", Follow: 1, Method: "PUT", Body: []byte("b"),
				Header: with("Authorization", "b")}, "200 PUT / 1 b "},
			{client.Request{Header: with("A", "b\r\nc: d")},
				`"A": expected the name and the value of a header field`},
			{client.Request{Header: with("content-length", "1")},
				"the field content-length is the client's own"},
			{client.Request{Method: "a b"}, `"a b" is no method of a client`},
		} {
			r := tt.r
			r.URL = o.URL + r.URL
			got := ""
			resp, err := client.Do(th, wait.Patience, &r)
			if err != nil {
				got = err.Error()
			} else if body, err := io.ReadAll(resp.Body); err != nil {
				got = err.Error()
			} else {
				got = fmt.Sprint(resp.Status, " ", string(body))
			}
			if got != tt.want {
				t.Errorf("%s %s: have %q, want %q", tt.r.Method, tt.r.URL, got, tt.want)
			}
		}
	})
}

// TestTLS: the scheme says it, and the name is verified.
func TestTLS(t *testing.T) {
	ca := certs.New(t)
	o := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write(make([]byte, 1<<20))
	}))
	o.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue(time.Hour, "127.0.0.1")}}
	o.Config.ErrorLog = log.New(io.Discard, "", 0)
	o.StartTLS()
	defer o.Close()
	onThread(t, func(th *loop.Thread) {
		c := client.Client{TLS: &tls.Config{RootCAs: ca.Pool}}
		for range 3 {
			if got, err := get(th, &c, o.URL, wait.Patience); err != nil || len(got) != 4+1<<20 {
				t.Error(len(got), err)
			}
		}
		if _, err := client.Get(th, wait.Patience, o.URL); !errors.Is(err, client.ErrConnect) ||
			!strings.Contains(err.Error(), "unknown authority") {
			t.Error(err)
		}
		elsewhere := strings.Replace(o.URL, "127.0.0.1", "localhost", 1)
		if _, err := c.Get(th, wait.Patience, elsewhere); !errors.Is(err, client.ErrConnect) {
			t.Error(err)
		}
	})
}

// TestKeptConnections: requests one after the other have one connection, and one that the server
// has closed is replaced without the caller's notice.
func TestKeptConnections(t *testing.T) {
	var accepted, asked atomic.Int32
	addr, _ := script(t, func(c net.Conn, r *bufio.Reader) {
		accepted.Add(1)
		for range 5 {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			asked.Add(1)
			io.WriteString(c, kept)
		}
		// The next request is read and gets no answer.
		http.ReadRequest(r)
	})
	onThread(t, func(th *loop.Thread) {
		var c client.Client
		for i := range 20 {
			if got, err := get(th, &c, "http://"+addr, wait.Patience); got != "200 hello" || err != nil {
				t.Error(i, got, err)
			}
		}
	})
	if n := accepted.Load(); n > 6 || asked.Load() != 20 {
		t.Errorf("%d connections, %d requests", n, asked.Load())
	}
}

// TestManyOrigins: a client forgets all servers when it has seen too many, and the connections that
// it kept end in time.
func TestManyOrigins(t *testing.T) {
	addr, open := script(t, answer(kept))
	_, port, _ := net.SplitHostPort(addr)
	onThread(t, func(th *loop.Thread) {
		var c client.Client
		for i := range 600 {
			for _, url := range []string{"http://" + addr, fmt.Sprintf("http://127.0.0.1:%s/", port),
				fmt.Sprintf("http://127.0.1.1:%d", 1+i)} {
				got, err := get(th, &c, url, wait.Patience)
				if strings.HasSuffix(url, "/") && (err != nil || got != "200 hello") {
					t.Error(got, err)
				}
			}
		}
	})
	wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
}

// TestThreadsEnd: an answer that was not read ends with its thread, and one that was closed does
// not wait for that.
func TestThreadsEnd(t *testing.T) {
	addr, open := script(t, func(c net.Conn, r *bufio.Reader) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello")
		io.Copy(io.Discard, r)
	})
	onThread(t, func(th *loop.Thread) {
		var c client.Client
		var first, second, third *client.Response
		for _, p := range []**client.Response{&first, &second, &third} {
			var err error
			if *p, err = c.Get(th, wait.Patience, "http://"+addr); err != nil {
				t.Error(err)
				return
			}
		}
		for i, r := range []*client.Response{second, first, third} {
			if i == 2 {
				break // the thread ends
			}
			r.Body.Close()
			r.Body.Close()
			if n, err := r.Body.Read(make([]byte, 9)); n > 0 || err == nil || err == io.EOF {
				t.Error(n, err)
			}
			for open.Load() > int32(2-i) {
				th.Sleep(time.Millisecond)
			}
		}
	})
	wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
}

// TestClientLeaves: when the client of the handler leaves, the request that the handler has made
// ends at once, with its connection.
func TestClientLeaves(t *testing.T) {
	asked := make(chan bool)
	addr, open := script(t, func(c net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err == nil {
			asked <- true
		}
		io.Copy(io.Discard, r)
	})
	ended := make(chan error)
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := server.Start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			_, err := client.Get(req.Thread, time.Hour, "http://"+addr)
			ended <- err
			return 502
		}})
		c := s.Dial()
		c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		<-asked
		c.Close()
		if err := <-ended; !errors.Is(err, loop.ErrClientGone) {
			t.Error(err)
		}
		wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
	}, modes.Direct, modes.OverTLS)
}

// TestPasses: bodies of any size pass through a handler piece by piece, from many clients at once,
// and the loops share the connections.
func TestPasses(t *testing.T) {
	text := strings.Repeat("0123456789", 300_000)
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		fmt.Sscan(r.URL.RawQuery, &n)
		if n%2 == 0 {
			w.Header().Set("Content-Length", fmt.Sprint(n))
		}
		io.WriteString(w, text[:n])
	}))
	defer o.Close()
	s := server.Start(t, modes.Several, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		resp, err := client.Get(req.Thread, wait.Patience, o.URL+req.Target())
		if err != nil {
			t.Error(err)
			return 502
		}
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		if _, err := io.Copy(w, resp.Body); err != nil {
			t.Error(err)
		}
		return resp.Status
	}})
	var all sync.WaitGroup
	for k := range 6 {
		all.Go(func() {
			for i := range 20 {
				n := (k*i*i*i*331 + i) % len(text)
				resp, err := http.Get(fmt.Sprintf("http://%s/?%d", s.Addr, n))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(got) != text[:n] {
					t.Error(n, len(got), err)
				}
			}
		})
	}
	all.Wait()
	http.DefaultClient.CloseIdleConnections()
}

// TestGetAllocs: a small answer on a kept connection costs the URL's parts, the request, the answer
// with its text and its list of fields, and here the URL itself.
func TestGetAllocs(t *testing.T) {
	if race.Enabled {
		t.Skip("sync.Pool drops things at random under the race detector")
	}
	if r := testing.Benchmark(BenchmarkGet); r.AllocsPerOp() > 6 {
		t.Error(r.AllocsPerOp(), "allocations")
	}
}

// BenchmarkGet: a small answer on a kept connection. The server's part is in the time, and not in
// the allocations: it makes none.
func BenchmarkGet(b *testing.B) {
	addr, _ := script(b, func(c net.Conn, r *bufio.Reader) {
		for buf := make([]byte, 1000); ; {
			if _, err := r.Read(buf); err != nil {
				return
			}
			if _, err := io.WriteString(c, kept); err != nil {
				return
			}
		}
	})
	onThread(b, func(th *loop.Thread) {
		var c client.Client
		buf := make([]byte, 100)
		b.ReportAllocs()
		for b.Loop() {
			resp, err := c.Get(th, time.Minute, "http://"+addr+"/path?query")
			if err != nil {
				b.Error(err)
				return
			}
			if n, err := resp.Body.Read(buf); n != 5 || err != nil {
				b.Error(n, err)
				return
			}
		}
	})
}
