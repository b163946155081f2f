package conn_test

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
)

// TestHTTP2CloseNotifyBehindFrames: the end of TLS is seen although it comes with the last frame,
// and the client leaves TCP open.
func TestHTTP2CloseNotifyBehindFrames(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		if !m.TLS {
			return
		}
		s := start(t, m, conn.Config{Handler: hello,
			Limits: conn.Limits{KeepAliveTimeout: time.Hour}})
		d := must.Get(net.Dial("tcp", s.Addr))(t)
		defer d.Close()
		below := &batching{Conn: d}
		c := tls.Client(below, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		r := &raw2{t: t, Conn: c, out: []byte(http2.Preface)}
		r.frame(http2.SettingsFrame, 0, 0, "")
		r.frame(http2.Ping, 0, 0, "12345678")
		r.flush()
		r.until(http2.Ping)
		below.on = true
		r.frame(http2.Ping, 0, 0, "87654321")
		r.flush()
		must.Do(t, c.CloseWrite())
		must.Do(t, d.SetDeadline(time.Now().Add(wait.Patience)))
		must.Get(d.Write(below.out))(t)
		h, payload := r.next()
		for ; h.Type != 255; h, payload = r.next() {
		}
		if payload != nil {
			t.Errorf("%s", payload)
		}
	})
}

// batching is a connection that gathers what is written if on is set.
type batching struct {
	net.Conn
	on  bool
	out []byte
}

func (g *batching) Write(p []byte) (int, error) {
	if !g.on {
		return g.Conn.Write(p)
	}
	g.out = append(g.out, p...)
	return len(p), nil
}
