package fcgitest_test

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/fastcgi/internal/wire"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/cgi"
)

// A client is the smallest web server that can be made of the packages under test. It writes and
// reads at once, and has a time-out for each of these.
type client struct {
	t    testing.TB
	conn net.Conn
	keep bool
	wait time.Duration // time-out of a read
	dec  wire.Decoder
}

func dial(t testing.TB, address string, keep bool) *client {
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	conn := must.Dial(t, network, address)
	t.Cleanup(func() { conn.Close() })
	return &client{t: t, conn: conn, keep: keep, wait: 10 * time.Second}
}

// An outcome is what the client of a web server gets to see.
type outcome struct {
	status int // 502 and the like if it is the server's own
	fields []cgi.Field
	length int64 // Content-Length; -1: there is none
	body   string
	err    error // of an error page, or of a response that was cut
	cut    bool
	reuse  bool // the connection may be used again
}

func (c *client) head(body string) []byte {
	r := cgi.Request{
		Method: "GET", Target: "/x.php?q", Query: "q", Proto: "HTTP/1.1", Host: "example.org",
		Script: "/x.php",
		Root:   "/srv", Fixed: cgi.Fix(cgi.FastCGI, "/srv", "lwango", nil),
		Length: int64(len(body)), Fields: cgi.List{{Name: "Accept", Value: "*/*"}},
	}
	if body != "" {
		r.Method = "POST"
	}
	var h wire.Head
	h.Begin(nil, c.keep)
	r.AppendTo(&h.Vars)
	b := must.Get(h.Finish())(c.t)
	return b
}

func (c *client) do(body string) outcome {
	sent := make(chan error, 1)
	b := append(c.head(body), stdin(body)...)
	go func() {
		_, err := c.conn.Write(b)
		sent <- err
	}()
	o := c.read()
	if !o.reuse {
		c.conn.Close()
	}
	select {
	case err := <-sent:
		o.reuse = o.reuse && err == nil
	case <-time.After(fcgitest.Timeout):
		o.reuse = false
		c.conn.Close()
		<-sent
	}
	return o
}

func (c *client) read() (o outcome) {
	var h cgi.Header
	var body strings.Builder
	begun := false // the header is complete
	c.dec.Reset()
	defer func() {
		o.cut = begun && o.err != nil
		o.body = body.String()
		if o.fields, o.length = h.Fields, h.Length; begun {
			o.status = h.Status
			return
		}
		var e *cgi.Error
		switch {
		case errors.As(o.err, &e):
			o.status = e.Status
		case errors.Is(o.err, os.ErrDeadlineExceeded):
			o.status = 504
		default:
			o.status = 502
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		c.conn.SetReadDeadline(time.Now().Add(c.wait))
		n, err := c.conn.Read(buf)
		if n == 0 {
			return outcome{err: err}
		}
		for in := buf[:n]; ; {
			typ, data, n, err := c.dec.Next(in)
			if err != nil {
				return outcome{err: err}
			}
			in = in[n:]
			if typ == 0 {
				break
			}
			switch typ {
			case wire.EndRequest:
				err := c.dec.End().Err()
				switch {
				case err != nil:
				case !begun:
					err = cgi.ErrIncomplete
				case h.Length >= 0 && int64(body.Len()) < h.Length:
					err = errors.New("less than was declared")
				}
				reuse := c.keep && c.dec.Reusable() && len(in) == 0 && err == nil
				return outcome{err: err, reuse: reuse}
			case wire.Stdout:
				if !begun {
					n, done, err := h.Parse(data)
					if err != nil {
						return outcome{err: err}
					}
					data, begun = data[n:], done
				}
				if h.Length >= 0 {
					data = data[:min(int64(len(data)), h.Length-int64(body.Len()))]
				}
				body.Write(data)
			}
		}
	}
}

// stdin is a body in records.
func stdin(body string) (b []byte) {
	for len(body) > 0 {
		n := min(len(body), wire.StdinContent)
		b = append(wire.AppendHeader(b, wire.Stdin, n), body[:n]...)
		body = body[n:]
	}
	return wire.AppendStdinEnd(b)
}
