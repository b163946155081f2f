package conn_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// TestResetIsNoError: a client that resets its connection is nothing that an operator has to look
// at, whatever the handler was doing.
func TestResetIsNoError(t *testing.T) {
	began := make(chan struct{}, 1)
	note := func() {
		select {
		case began <- struct{}{}:
		default:
		}
	}
	handlers := map[string]conn.Handler{
		"/echo": func(req *conn.Request, resp *conn.Response) int {
			note()
			resp.SetBodyReader(req.Body(), -1)
			return 200
		},
		"/read": func(req *conn.Request, resp *conn.Response) int {
			note()
			if _, err := io.ReadAll(req.Body()); err != nil {
				return 500
			}
			return 200
		},
		"/stream": func(req *conn.Request, resp *conn.Response) int {
			note()
			for {
				if _, err := resp.Write(make([]byte, 64<<10)); err != nil {
					return 500
				}
			}
		},
		"/threads": func(req *conn.Request, resp *conn.Response) int {
			req.Go(func(t *loop.Thread) error { note(); return t.Sleep(time.Minute) })
			return 200
		},
		"/http": conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			note()
			_, _ = io.Copy(w, r.Body)
		})),
		"/onloop": conn.HTTPOnLoop(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			note()
			_, _ = io.Copy(w, r.Body)
		})),
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: byPath(handlers)})
		for path := range handlers {
			c := must.Get(net.Dial("tcp", s.Addr))(t)
			must.Get(io.WriteString(c,
				"POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx"))(t)
			<-began
			_ = c.(*net.TCPConn).SetLinger(0)
			c.Close()
			s.Idle()
			if log := s.Log.String(); strings.Contains(log, "level=ERROR") ||
				strings.Contains(log, "level=WARN") {
				t.Errorf("%s:\n%s", path, log)
				return
			}
		}
	}, plain, direct)
}

// corrupter changes one byte of the record that it is told to spoil.
type corrupter struct {
	net.Conn
	spoil bool
}

func (c *corrupter) Write(p []byte) (int, error) {
	if c.spoil {
		p = append([]byte(nil), p...)
		p[len(p)-1] ^= 1
	}
	return c.Conn.Write(p)
}

// TestBadRecordEndsOrderly: the alert about a spoiled record is not taken away by a reset.
func TestBadRecordEndsOrderly(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			_, _ = io.ReadAll(req.Body())
			return 200
		}})
		raw := s.Dial().TCP()
		below := &corrupter{Conn: raw}
		c := tls.Client(below, &tls.Config{InsecureSkipVerify: true})
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n1")
		below.spoil = true
		send(t, c, "2345")
		var alert *net.OpError
		if _, err := c.Read(make([]byte, 1)); !errors.As(err, &alert) ||
			alert.Op != "remote error" {
			t.Error(err)
		}
		if got, err := io.ReadAll(raw); err != nil {
			t.Errorf("after the alert: %q, %v", got, err)
		}
	}, overTLS)
}
