package conn_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// echoDuplex writes what it reads, and nothing more as long as the client has not taken the last of
// it.
func echoDuplex(req *conn.Request, w *conn.Response) int {
	d, buf := req.Layer().Duplex(), make([]byte, 8<<10)
	body, end := req.Body(), false
	for {
		left, err := d.SendHeld()
		if err != nil {
			return 200
		}
		if end && left == 0 {
			break
		}
		if !end && left == 0 {
			n, err := body.Read(buf)
			switch {
			case n > 0:
				w.Write(buf[:n])
				w.Flush()
				continue
			case err == io.EOF:
				end = true
				continue
			case !errors.Is(err, stream.ErrWouldBlock):
				w.Abort()
				return 200
			}
		}
		if d.Await(-1, !end && left == 0) != nil {
			w.Abort()
			return 200
		}
	}
	if d.End() != nil {
		return 200
	}
	w.WriteString("end")
	return 200
}

// TestDuplex: every piece comes back before the next one is sent; and a client that sends all
// before it reads gets all.
func TestDuplex(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: echoDuplex, Limits: conn.Limits{MaxBodySize: -1}})
		c := s.Dial()
		const n = 20
		send(t, c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", n*5))
		var std *http.Response
		for i := range n {
			piece := fmt.Sprintf("%04d\n", i)
			send(t, c, piece)
			if std == nil {
				var err error
				if std, err = http.ReadResponse(c.R, nil); err != nil {
					t.Fatal(err)
				}
			}
			b := make([]byte, len(piece))
			if _, err := io.ReadFull(std.Body, b); err != nil || string(b) != piece {
				t.Fatalf("%q, %v; want %q", b, err, piece)
			}
		}
		if b, err := io.ReadAll(std.Body); string(b) != "end" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		send(t, c, get) // the connection goes on, and waits as ever
		if std, err := http.ReadResponse(c.R, nil); err != nil || std.StatusCode != 200 {
			t.Error(std, err)
		} else if b, err := io.ReadAll(std.Body); string(b) != "end" || err != nil {
			t.Errorf("%q, %v", b, err)
		}

		const big = 3 << 20
		c = s.Dial()
		go fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", big,
			strings.Repeat("x", big))
		std = must.Get(http.ReadResponse(c.R, nil))(t)
		if b, err := io.ReadAll(std.Body); len(b) != big+3 || err != nil {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	})
}

// TestDuplexHeld: what the handler leaves held goes out all the same.
func TestDuplexHeld(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		const n = 16 << 20 // more than sockets take
		text := strings.Repeat("x", n)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			req.Layer().Duplex()
			w.Write([]byte(text))
			w.WriteString("end")
			return 200
		}})
		c := s.Dial()
		send(t, c, get)
		std := must.Get(http.ReadResponse(c.R, nil))(t)
		if b, err := io.ReadAll(std.Body); err != nil || string(b) != text+"end" {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	})
}

// TestDuplexLimits: a client that does not send, or does not read, ends the wait, and is told by
// the call that follows; the handler's own limit and its other sources do so, too.
func TestDuplexLimits(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		entered, told := make(chan struct{}, 1), make(chan error, 1)
		// The clock is put forward: real limits that are worth waiting for would end handshakes, too.
		s := start(t, m, conn.Config{Limits: conn.Limits{BodyTimeout: time.Hour, WriteTimeout: time.Hour},
			Handler: byPath(map[string]conn.Handler{
				"/body": func(req *conn.Request, w *conn.Response) int {
					d := req.Layer().Duplex()
					entered <- struct{}{}
					for {
						if _, err := req.Body().Read(make([]byte, 10)); !errors.Is(err,
							stream.ErrWouldBlock) {
							told <- err
							return 200
						}
						if err := d.Await(-1, true); err != nil {
							told <- err
							return 200
						}
					}
				},
				"/held": func(req *conn.Request, w *conn.Response) int {
					d := req.Layer().Duplex()
					entered <- struct{}{}
					w.Write(make([]byte, 16<<20))
					for {
						if _, err := d.SendHeld(); err != nil {
							told <- err
							return 200
						}
						if err := d.Await(-1, false); err != nil {
							told <- err
							return 200
						}
					}
				},
				"/own": func(req *conn.Request, w *conn.Response) int {
					d := req.Layer().Duplex()
					entered <- struct{}{}
					told <- d.Await(time.Millisecond, false)
					return 200
				},
				"/source": func(req *conn.Request, w *conn.Response) int {
					p := new(loop.Promise[int])
					p.Resolve(1)
					d := req.Layer().Duplex()
					entered <- struct{}{}
					told <- d.Await(time.Minute, true, p)
					return 200
				},
			})})
		for path, want := range map[string]error{"/body": conn.ErrBodyTimeout,
			"/held": loop.ErrDeadlineExceeded,
			"/own":  loop.ErrDeadlineExceeded, "/source": nil} {
			c := s.Dial()
			send(t, c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
			<-entered // before the clock is put forward, which a handshake would not survive
			var err error
			wait.Until(t, "the end of the wait", func() bool {
				s.Skip(time.Hour)
				select {
				case err = <-told:
					return true
				default: // the client's kernel may have taken more of what is held
					return false
				}
			})
			if !errors.Is(err, want) {
				t.Errorf("%s: %v", path, err)
			}
			if path == "/body" {
				if std, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil ||
					std.StatusCode != 408 {
					t.Error(std, err)
				}
			}
		}
	})
}
