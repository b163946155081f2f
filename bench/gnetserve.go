package main

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
)

// A gnetServer is callbacks on an event loop in Go: what lwango takes beyond it is the price of its
// green threads, and of HTTP. It does no more with a request than to find its end.
type gnetServer struct {
	gnet.BuiltinEventEngine
	echo   bool
	answer atomic.Pointer[[]byte] // with the date
}

func serveGnet(addr string, echo bool) error {
	return gnet.Run(&gnetServer{echo: echo}, "tcp://"+addr,
		gnet.WithNumEventLoop(runtime.GOMAXPROCS(0)), gnet.WithTicker(true),
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
