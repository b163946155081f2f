package main

import (
	"crypto/tls"
	"net"
	"time"

	"golang.org/x/net/http2/hpack"
)

// A client2 has connections of HTTP/2 on a reactor, in clear text.
type client2 struct {
	*reactor
	job
	start   time.Time
	links   int
	answers int
}

// A link2 is one of these connections.
type link2 struct {
	*conn2
	to *link
}

func newClient2(j job) *client2 {
	if j.Conns < 1 || j.Streams < 1 || j.Size < 1 {
		failf("%d connections, %d streams, %d bytes", j.Conns, j.Streams, j.Size)
	}
	return &client2{reactor: newReactor(64 << 10), job: j, start: time.Now()}
}

func (c *client2) now() time.Duration { return time.Since(c.start) }

// connect returns when the server's SETTINGS have come. more is called whenever something else has,
// before what that has caused is sent; it may be nil.
func (c *client2) connect(more func() error) *link2 {
	c.links++
	l := &link2{conn2: newConn2(nil)}
	l.to = c.adopt(c.dial(), c.links, func(p []byte) error {
		if err := l.feed(p); err != nil {
			return err
		}
		if more != nil && l.settled {
			if err := more(); err != nil {
				return err
			}
		}
		return c.flush(l)
	})
	check(c.flush(l))
	if !c.until(c.Patience, func() bool { return l.settled }) {
		failf("connection %d: no SETTINGS came within %v", c.links, c.Patience)
	}
	return l
}

// flush sends what the connection has gathered.
func (c *client2) flush(l *link2) error {
	if len(l.out) == 0 {
		return nil
	}
	err := c.write(l.to, l.out)
	l.out = l.out[:0]
	return err
}

// get is the fields of a request, with more of them behind the pseudo-header fields.
func (j job) get(path string, more ...hpack.HeaderField) []hpack.HeaderField {
	scheme := "http"
	if j.Secure {
		scheme = "https"
	}
	head := pairs(":method", "GET", ":scheme", scheme, ":authority", j.Addr, ":path", path)
	return append(head, more...)
}

// pairs makes fields of names and values in turn.
func pairs(texts ...string) (fields []hpack.HeaderField) {
	for i := 0; i < len(texts); i += 2 {
		fields = append(fields, hpack.HeaderField{Name: texts[i], Value: texts[i+1]})
	}
	return fields
}

// A wire2 is a connection of HTTP/2 whose reads and writes wait: over TLS, or to be left idle.
type wire2 struct {
	*conn2
	net.Conn
	buf []byte
}

func (j job) wire2(config *tls.Config, buf []byte) *wire2 {
	conn := j.dial()
	if j.Secure {
		secure := tls.Client(conn, config)
		check(secure.Handshake())
		if p := secure.ConnectionState().NegotiatedProtocol; p != "h2" {
			failf("ALPN has agreed on %q", p)
		}
		conn = secure
	}
	return &wire2{newConn2(nil), conn, buf}
}

// trust2 is trust for clients of HTTP/2.
func (j job) trust2() *tls.Config {
	if !j.Secure {
		return nil
	}
	config := j.trust()
	config.NextProtos = []string{"h2"}
	config.MinVersion, config.CurvePreferences = tls.VersionTLS12, nil // nghttpd's
	return config
}

// turn sends what was gathered, and takes what has come.
func (w *wire2) turn() error {
	if len(w.out) > 0 {
		if _, err := w.Write(w.out); err != nil {
			return err
		}
		w.out = w.out[:0]
	}
	n, err := w.Read(w.buf)
	if err != nil {
		return err
	}
	return w.feed(w.buf[:n])
}

// ask returns the answer to a request, all of it.
func (w *wire2) ask(fields []hpack.HeaderField) string {
	var body []byte
	ended := false
	w.request(&stream2{
		take: func(p []byte) error { body = append(body, p...); return nil },
		end:  func() error { ended = true; return nil },
	}, true, fields)
	for !ended {
		check(w.turn())
	}
	return string(body)
}

// once2 is once over HTTP/2.
func (j job) once2(path string) string {
	w := j.wire2(j.trust2(), make([]byte, longestFrame))
	defer w.Close()
	return w.ask(j.get(path))
}
