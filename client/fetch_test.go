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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

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
		fmt.Fprintf(w, "%s %s %d %.5s %s", r.Method, r.RequestURI, len(body), body,
			r.Header.Get("Authorization"))
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
			{client.Request{URL: "/to/to/x", Follow: 2, Method: "POST", Body: []byte("b")},
				"200 GET /x 0  "},
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

// TestIdleConnections: requests one after the other have one connection, and one that the server
// has closed is replaced without the caller's notice.
func TestIdleConnections(t *testing.T) {
	var accepted, asked atomic.Int32
	addr, _ := script(t, func(c net.Conn, r *bufio.Reader) {
		accepted.Add(1)
		for range 5 {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			asked.Add(1)
			io.WriteString(c, reusable)
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
	t.Parallel()
	addr, open := script(t, answer(reusable))
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
	s := server.Start(t, modes.Several,
		conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
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

// TestGetAllocs: a small answer on an idle connection costs the URL's parts, the request, the
// answer with its text and its list of fields, and here the URL itself.
func TestGetAllocs(t *testing.T) {
	ci.Without(t, race.Enabled, "sync.Pool drops things at random under the race detector")
	if r := testing.Benchmark(BenchmarkGet); r.AllocsPerOp() > 6 {
		t.Error(r.AllocsPerOp(), "allocations")
	}
}

// BenchmarkGet: a small answer on an idle connection. The server's part is in the time, and not in
// the allocations: it makes none.
func BenchmarkGet(b *testing.B) {
	addr, _ := script(b, func(c net.Conn, r *bufio.Reader) {
		for buf := make([]byte, 1000); ; {
			if _, err := r.Read(buf); err != nil {
				return
			}
			if _, err := io.WriteString(c, reusable); err != nil {
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
