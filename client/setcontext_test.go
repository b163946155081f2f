package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/loop"
)

// fullListener returns an address to which nobody can connect, and nobody is refused.
func fullListener(t *testing.T) string {
	fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(fd) })
	must.Do(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must.Do(t, unix.Listen(fd, 0))
	address := fmt.Sprint("127.0.0.1:", must.Get(unix.Getsockname(fd))(t).(*unix.SockaddrInet4).Port)
	must.Dial(t, "tcp", address) // which fills its queue
	return address
}

// late is a context whose deadline passes when it is canceled.
type late struct{ context.Context }

func (l late) Err() error {
	if l.Context.Err() == nil {
		return nil
	}
	return context.DeadlineExceeded
}

// TestSetContext: whatever phase a call of a request's thread is in, the end of the context that
// the request was given ends the call, with the context's cause. Its connection is not used again.
func TestSetContext(t *testing.T) {
	entered, left := make(chan bool, 1), make(chan bool, 1)
	uploaded := make(chan bool)
	addr, _ := script(t, func(c net.Conn, r *bufio.Reader) {
		for {
			q, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			switch q.URL.Path {
			case "/ok":
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				continue
			case "/late":
				t.Error("a request was sent after the end of the context")
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				continue
			case "/head", "/upload":
			case "/body":
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\nbegin")
			case "/fast":
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n\r\n")
			}
			entered <- true
			for piece := make([]byte, 64<<10); q.URL.Path == "/fast" && err == nil; {
				_, err = c.Write(piece)
			}
			if q.URL.Path == "/upload" { // it is not read
				<-uploaded
			} else {
				_, _ = r.ReadByte()
			}
			left <- true
			return
		}
	})
	full := fullListener(t)
	mute, _ := script(t, func(c net.Conn, r *bufio.Reader) {
		entered <- true
		_, _ = io.Copy(io.Discard, r)
		left <- true
	})
	c := new(client.Client)
	read := func(a *client.Response, err error) error {
		if err == nil {
			_, err = io.Copy(io.Discard, a.Body)
		}
		return err
	}
	phases := map[string]func(req *conn.Request) error{
		"connect": func(req *conn.Request) error {
			entered <- true
			defer func() { left <- true }()
			return read(c.Get(req.Thread, -1, "http://"+full))
		},
		"handshake": func(req *conn.Request) error {
			return read(c.Get(req.Thread, -1, "https://"+mute))
		},
		"head": func(req *conn.Request) error {
			return read(c.Get(req.Thread, -1, "http://"+addr+"/head"))
		},
		"body": func(req *conn.Request) error {
			return read(c.Get(req.Thread, -1, "http://"+addr+"/body"))
		},
		"body that comes fast": func(req *conn.Request) error {
			return read(c.Do(req.Thread, -1, &client.Request{URL: "http://" + addr + "/fast", MaxBody: -1}))
		},
		"sending": func(req *conn.Request) error {
			defer func() { uploaded <- true }()
			return read(c.Do(req.Thread, -1, &client.Request{URL: "http://" + addr + "/upload",
				Method: "POST", Body: make([]byte, 16<<20)}))
		},
		"sending what comes": func(req *conn.Request) error {
			return read(c.Do(req.Thread, -1, &client.Request{URL: "http://" + addr + "/head",
				Method: "POST", From: readerFunc(func(p []byte) (int, error) {
					if err := req.Sleep(time.Hour); err != nil {
						return 0, err
					}
					return 1, nil
				})}))
		},
		"sending what is there": func(req *conn.Request) error {
			defer func() { uploaded <- true }()
			return read(c.Do(req.Thread, -1, &client.Request{URL: "http://" + addr + "/upload",
				Method: "POST", From: readerFunc(func(p []byte) (int, error) { return len(p), nil })}))
		},
		"after the end": func(req *conn.Request) error {
			entered <- true
			_ = req.Sleep(time.Hour)
			defer func() { left <- true }()
			return read(c.Get(req.Thread, -1, "http://"+addr+"/late"))
		},
	}
	cause := errors.New("the cause")
	ends := map[string]error{"cancel": loop.ErrCanceled, "deadline": loop.ErrDeadlineExceeded}
	s := server.Start(t, modes.Direct, conn.Config{
		Handler: func(req *conn.Request, resp *conn.Response) int {
			phase, how, _ := strings.Cut(req.Header().Get("Phase"), "/")
			if phase != "" {
				ctx, cancel := context.WithCancelCause(req.Context())
				go func() {
					<-entered
					cancel(cause)
				}()
				if how == "deadline" {
					ctx = late{ctx}
				}
				req.SetContext(ctx)
				if err := phases[phase](req); !errors.Is(err, ends[how]) || !errors.Is(err, cause) {
					t.Errorf("%s, %s: %v", phase, how, err)
				}
				return 204
			}
			a, err := c.Get(req.Thread, -1, "http://"+addr+"/ok")
			if err != nil {
				return resp.Text(500, err.Error())
			}
			_, _ = io.Copy(resp, a.Body)
			return a.Status
		}})
	d := s.Dial()
	for phase := range phases {
		for how := range ends {
			t.Run(phase+", "+how, func(t *testing.T) {
				d.Do("GET", "GET / HTTP/1.1\r\nHost: a\r\nPhase: "+phase+"/"+how+"\r\n\r\n")
				<-left
				if a := d.Do("GET", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); a.Text != "ok" {
					t.Errorf("the next call: %d %q", a.StatusCode, a.Text)
				}
			})
		}
	}
}

// readerFunc is a reader that is a function.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
