package fastcgi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/test/loopback"
	"github.com/lwango/lwango/loop"
)

// TestNoRoomForTheEnd: the last bytes of a request to a kept connection go out with those of
// others. If the application has no room for them, it is send_timeout that ends the request.
func TestNoRoomForTheEnd(t *testing.T) {
	end := make(chan bool)
	up := fcgitest.Start(t, "tcp", func(c *fcgitest.Conn) {
		c.Answer(okHead + "hello")
		<-end // it reads no more
	})
	defer close(end)
	p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
		s.KeepConn, s.IdleTimeout = true, time.Hour
		s.SendTimeout, s.ReadTimeout = 10*time.Second, 10*time.Minute
	})
	if g := p.get("/x.php"); g.body != "hello" {
		t.Fatalf("%+v", g)
	}
	p.On(func(l *loop.Loop) { l.Layer().PutOffAlways() })
	loopback.Fill(t, up.Address)
	done := make(chan got, 1)
	go func() { done <- p.get("/x.php") }()
	p.Settled("no room for the request", func(l *loop.Loop) bool { return l.Stats().Remainders > 0 })
	p.Skip(11 * time.Second)
	if g := <-done; g.status != 504 || !strings.Contains(p.log.String(), "send_timeout (10s)") {
		t.Errorf("%+v\n%s", g, p.log)
	}
}
