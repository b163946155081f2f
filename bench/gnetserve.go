package main

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gobwas/ws"
	"github.com/panjf2000/gnet/v2"
)

// A gnetServer is callbacks on an event loop in Go: what lwango takes beyond it is the price of its
// green threads, and of HTTP. It does no more with a request than to find its end.
type gnetServer struct {
	gnet.BuiltinEventEngine
	echo   bool
	answer atomic.Pointer[[]byte] // with the date
}

// serveGnet runs the server of that name.
func serveGnet(name, addr string) error {
	var handler gnet.EventHandler = &gnetServer{echo: name == "gnetecho"}
	if name == "gnetws" {
		handler = &gnetSockets{}
	}
	return gnet.Run(handler, "tcp://"+addr,
		gnet.WithNumEventLoop(runtime.GOMAXPROCS(0)), gnet.WithTicker(name != "gnetws"),
		gnet.WithReusePort(runtime.GOMAXPROCS(0) > 1))
}

// OnTick sets the date each second, and before the first connection.
func (s *gnetServer) OnTick() (time.Duration, gnet.Action) {
	text := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nServer: gnet\r\nDate: %s\r\n"+
		"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s",
		time.Now().UTC().Format(http.TimeFormat), len(hello), hello)
	s.answer.Store(&text)
	return time.Second, gnet.None
}

func (s *gnetServer) OnBoot(gnet.Engine) gnet.Action {
	s.OnTick()
	return gnet.None
}

func (s *gnetServer) OnTraffic(c gnet.Conn) gnet.Action {
	p, _ := c.Peek(-1) // never short for -1
	n, answer := len(p), p
	if !s.echo {
		end := []byte("\r\n\r\n")
		n = bytes.LastIndex(p, end) + len(end)
		if answer = *s.answer.Load(); n < len(end) {
			return gnet.None
		}
		if requests := bytes.Count(p[:n], end); requests > 1 {
			answer = bytes.Repeat(answer, requests)
		}
	}
	if _, err := c.Write(answer); err != nil {
		return gnet.Close
	}
	c.Discard(n)
	return gnet.None
}

// A gnetSockets is the least that an echo of WebSockets can be, so that what is measured is the
// proxy before it. It knows the frames of the client that measures: text in one frame, masked, of
// at most 125 bytes.
type gnetSockets struct{ gnet.BuiltinEventEngine }

// OnTraffic keeps a connection's buffer as its context, from the upgrade on.
func (*gnetSockets) OnTraffic(c gnet.Conn) gnet.Action {
	p, _ := c.Peek(-1) // never short for -1
	buf, upgraded := c.Context().(*[]byte)
	if !upgraded {
		// The client sends no frame before it has the answer.
		if bytes.HasSuffix(p, []byte("\r\n\r\n")) {
			if _, err := (ws.Upgrader{}).Upgrade(c); err != nil {
				return gnet.Close
			}
			c.SetContext(new([]byte))
		}
		return gnet.None
	}
	rest, out := p, (*buf)[:0]
	for len(rest) > 1 {
		const masked, head = 0x80, 6
		n := int(rest[1]) - masked
		if rest[0] != 0x81 || n < 0 || n > 125 {
			return gnet.Close
		}
		if len(rest) < head+n {
			break
		}
		out = append(append(out, rest[0], byte(n)), rest[head:head+n]...)
		ws.Cipher(out[len(out)-n:], [4]byte(rest[2:]), 0)
		rest = rest[head+n:]
	}
	if _, err := c.Write(out); err != nil {
		return gnet.Close
	}
	*buf = out
	c.Discard(len(p) - len(rest))
	return gnet.None
}
