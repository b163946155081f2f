package proxy_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/loopback"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
)

// TestNoRoomForTheEnd: the last bytes of a request to a kept connection go out with those of
// others. If the upstream has no room for them, it is send_timeout that ends the request.
func TestNoRoomForTheEnd(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		for _, body := range []string{"", "end"} {
			end := make(chan bool)
			o := start(t, func(p *originConn) {
				p.request()
				p.say(hello)
				<-end // it reads no more
			})
			f := serve(t, m, "/", []string{o.addr}, func(s *proxy.Settings) {
				s.SendTimeout, s.ReadTimeout, s.FirstByteTimeout = 10*time.Second, 10*time.Minute,
					10*time.Minute
				s.IdleTimeout = time.Hour
			})
			if g := f.ask("GET /", "", ""); g.body != "hello" {
				t.Fatalf("%+v", g)
			}
			f.On(func(l *loop.Loop) { l.Layer().PutOffAlways() })
			loopback.Fill(t, o.addr)
			c := f.Dial()
			fields, method := "", "GET"
			if body != "" {
				fields, method = "Content-Length: 3\r\n", "PUT"
			}
			_, _ = io.WriteString(c, method+" / HTTP/1.1\r\nHost: a\r\n"+fields+"\r\n"+body)
			f.Settled("no room for the request", func(l *loop.Loop) bool { return l.Stats().Remainders > 0 })
			f.Skip(11 * time.Second)
			if g := read(c.R, method); g.status != 504 ||
				!strings.Contains(f.log.String(), "send_timeout (10s)") {
				t.Errorf("body %q: %+v\n%s", body, g, f.log)
			}
			close(end)
		}
	}, modes.Direct, modes.Plain)
}
