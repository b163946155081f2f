package client_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// reset ends a connection by RST.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// TestReset: a server that resets the connection, wherever the exchange is then. The request ends
// at once; only one on an idle connection is sent again.
func TestReset(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    func(c net.Conn, r *bufio.Reader)
		err  error
	}{
		{"at once", func(c net.Conn, r *bufio.Reader) {}, client.ErrCut},
		{"after the request's head", func(c net.Conn, r *bufio.Reader) { http.ReadRequest(r) },
			client.ErrCut},
		{"within the request's body", func(c net.Conn, r *bufio.Reader) {
			if in, err := http.ReadRequest(r); err == nil {
				io.CopyN(io.Discard, in.Body, 100_000)
			}
		}, client.ErrCut},
		{"within the head", func(c net.Conn, r *bufio.Reader) {
			http.ReadRequest(r)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nConte")
		}, client.ErrCut},
		{"after the head", func(c net.Conn, r *bufio.Reader) {
			http.ReadRequest(r)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
		}, client.ErrCut},
		{"within a chunk", func(c net.Conn, r *bufio.Reader) {
			http.ReadRequest(r)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
		}, client.ErrCut},
		{"before the last chunk", func(c net.Conn, r *bufio.Reader) {
			http.ReadRequest(r)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		}, client.ErrCut},
		{"of a body up to the end", func(c net.Conn, r *bufio.Reader) {
			http.ReadRequest(r)
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nhello")
		}, client.ErrCut},
	} {
		addr, open := script(t, func(c net.Conn, r *bufio.Reader) { tt.f(c, r); reset(c) })
		onThread(t, func(th *loop.Thread) {
			var c client.Client
			resp, err := c.Do(th, wait.Patience, &client.Request{
				Method: "POST", URL: "http://" + addr, Body: make([]byte, 16<<20),
			})
			if err == nil {
				_, err = io.ReadAll(resp.Body)
			}
			// A reset at once may come before the client has seen that it is connected.
			early := tt.name == "at once" && errors.Is(err, syscall.ECONNRESET)
			if !errors.Is(err, tt.err) && !early || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v", tt.name, err)
			}
		})
		wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
	}
}

// stalled returns the error of a request that has a short limit. On a busy machine that may be over
// before there is a connection: then the limit grows.
func stalled(ask func(limit time.Duration) error) (err error) {
	for limit := 50 * time.Millisecond; limit < wait.Patience; limit *= 2 {
		if err = ask(limit); !errors.Is(err, client.ErrConnect) {
			break
		}
	}
	return err
}

// TestStallWhileSending: a server that does not read a large body, from memory or from a reader,
// ends the request when its time is over. So does one that sends a byte at a time.
func TestStallWhileSending(t *testing.T) {
	asked := make(chan bool)
	deaf, open := script(t, func(c net.Conn, r *bufio.Reader) {
		r.ReadByte()
		<-asked
	})
	slow, openSlow := script(t, func(c net.Conn, r *bufio.Reader) {
		http.ReadRequest(r)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
		for {
			if _, err := io.WriteString(c, "x"); err != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	onThread(t, func(th *loop.Thread) {
		defer close(asked)
		for _, r := range []client.Request{
			{Method: "POST", URL: "http://" + deaf, Body: make([]byte, 64<<20)},
			{Method: "POST", URL: "http://" + deaf, From: &counted{}},
			{URL: "http://" + slow},
		} {
			err := stalled(func(limit time.Duration) error {
				resp, err := client.Do(th, limit, &r)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
				}
				return err
			})
			if !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, client.ErrConnect) {
				t.Errorf("%s: %v", r.URL, err)
			}
		}
	})
	wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 && openSlow.Load() == 0 })
}

// TestFanOut: 100 calls in one Collect, to a server that answers them only when all have arrived;
// the next 100 have the same connections.
func TestFanOut(t *testing.T) {
	const calls = 100
	var accepted atomic.Int32
	var mu sync.Mutex
	arrived, all := 0, make(chan bool)
	addr, _ := script(t, func(c net.Conn, r *bufio.Reader) {
		accepted.Add(1)
		for {
			in, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			mu.Lock()
			round := all
			if arrived++; arrived == calls {
				arrived, all = 0, make(chan bool)
				close(round)
			}
			mu.Unlock()
			<-round
			text := in.URL.Query().Get("n")
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		}
	})
	s := server.Start(t, modes.Direct,
		conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			var asked []*loop.Promise[string]
			for i := range calls {
				asked = append(asked, loop.Go(req.Thread, func(t *loop.Thread) (string, error) {
					answer, err := client.Get(t, wait.Patience, fmt.Sprintf("http://%s/?n=%d", addr, i))
					if err != nil {
						return "", err
					}
					text, err := io.ReadAll(answer.Body)
					return string(text), err
				}))
			}
			texts, errs := loop.Collect(req.Thread, wait.Patience, asked...)
			for i, text := range texts {
				if text != fmt.Sprint(i) {
					t.Errorf("%d: %s", i, text)
				}
			}
			return resp.Text(200, fmt.Sprint(len(texts), " ", errors.Join(errs...)))
		}})
	for range 3 {
		if a := s.Request("GET /", nil, ""); a.Text != "100 <nil>" {
			t.Error(a.Status, a.Text)
		}
	}
	if n := accepted.Load(); n != calls {
		t.Error(n, "connections")
	}
}

// TestFanOutFaults: of 100 calls some are reset, some are cut, and some stall. The others are
// answered; when the client leaves, what stalls ends at once, with its connections.
func TestFanOutFaults(t *testing.T) {
	var stalls atomic.Int32
	addr, open := script(t, func(c net.Conn, r *bufio.Reader) {
		in, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		switch in.URL.Path {
		case "/0":
			reset(c)
		case "/1":
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")
		case "/2":
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")
			stalls.Add(1)
			io.Copy(io.Discard, r)
		default:
			io.WriteString(c, reusable)
		}
	})
	fan := func(req *conn.Request, ofStalls time.Duration) (texts []string, failed, late int) {
		var asked []*loop.Promise[string]
		for i := range 100 {
			limit := wait.Patience
			if i%4 == 2 {
				limit = ofStalls
			}
			asked = append(asked, loop.Go(req.Thread, func(t *loop.Thread) (string, error) {
				answer, err := client.Get(t, limit, fmt.Sprintf("http://%s/%d", addr, i%4))
				if err != nil {
					return "", err
				}
				text, err := io.ReadAll(answer.Body)
				return string(text), err
			}))
		}
		texts, errs := loop.Collect(req.Thread, -1, asked...)
		for _, err := range errs {
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, loop.ErrClientGone):
				late++
			case errors.Is(err, client.ErrCut):
				failed++
			}
		}
		return texts, failed, late
	}
	left := make(chan int, 1)
	s := server.Start(t, modes.Direct,
		conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			if req.Path() == "/leave" {
				_, _, late := fan(req, time.Hour)
				left <- late
				return 200
			}
			texts, failed, late := fan(req, 500*time.Millisecond)
			return resp.Text(200, fmt.Sprint(len(texts), texts[3], texts[99], " ", failed, " ", late))
		}})
	if a := s.Request("GET /", nil, ""); a.Text != "100hellohello 50 25" {
		t.Error(a.Status, a.Text)
	}
	wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
	stalls.Store(0)
	c := s.Dial()
	c.Send("GET /leave HTTP/1.1\r\nHost: a\r\n\r\n")
	wait.Until(t, "25 stall", func() bool { return stalls.Load() == 25 })
	c.Close()
	if n := <-left; n < 25 {
		t.Error(n, "calls have ended with their client")
	}
	wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
}

// counted is a reader without an end.
type counted struct{ n int64 }

func (r *counted) Read(p []byte) (int, error) {
	clear(p)
	r.n += int64(len(p))
	return len(p), nil
}

// TestKilled: threads that a stop kills, wherever their requests are, leave nothing open.
func TestKilled(t *testing.T) {
	var waiting atomic.Int32
	stopped := make(chan bool)
	stop := sync.OnceFunc(func() { close(stopped) })
	defer stop()
	addr, open := script(t, func(c net.Conn, r *bufio.Reader) {
		in, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if in.URL.Path == "/body" {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")
		}
		waiting.Add(1)
		if in.URL.Path == "/deaf" {
			<-stopped
		}
		io.Copy(io.Discard, r)
	})
	s := server.Start(t, modes.Direct,
		conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			ask := client.Request{URL: "http://" + addr + req.Path()}
			switch req.Path() {
			case "/from":
				ask.Method, ask.From = "POST", req.Body()
			case "/deaf":
				ask.Method, ask.Body = "POST", make([]byte, 64<<20)
			}
			answer, err := client.Do(req.Thread, time.Hour, &ask)
			if err == nil {
				_, err = io.ReadAll(answer.Body)
			}
			t.Error("the handler goes on:", err)
			return 502
		}})
	for _, path := range []string{"/head", "/body", "/from", "/deaf"} {
		c := s.Dial()
		c.Send("POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1234")
	}
	wait.Until(t, "all wait", func() bool { return waiting.Load() == 4 })
	s.On(func(l *loop.Loop) { l.Stop(0) })
	stop()
	wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
}
