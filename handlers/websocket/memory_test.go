package websocket_test

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/pubsub"
	"golang.org/x/sys/unix"
)

// inUse returns how much memory this process has in use.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // what was in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestServeMemory: what an idle connection takes that is subscribed, in a room of ten, after a message.
func TestServeMemory(t *testing.T) {
	ci.Without(t, race.Enabled || invariants.Enabled, "these take memory of their own")
	modes.Run(t, func(t *testing.T, m mode) {
		const many, before = 1000, 50
		most := int64(640)
		if m.TLS {
			most = 5 << 10
		}
		hub, room, n := new(pubsub.Hub), (*pubsub.Topic)(nil), 0
		var u websocket.Upgrader
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			if n%10 == 0 {
				room = hub.Topic(string(rune(n)))
			}
			n++
			return u.Serve(req, resp, counter{room, nil})
		})
		per := idleBytes(t, s, m.TLS, before, many, 0, func(c io.ReadWriter) {
			must.Get(io.WriteString(c, handshake+"\r\n"+frame(0x81, "hello")))(t)
			for got, b := "", make([]byte, 500); len(got) < 7 || got[len(got)-7:] != "\x81\x05hello"; {
				got += string(b[:must.Get(c.Read(b))(t)])
			}
		})
		t.Logf("%d bytes", per)
		if per > most {
			t.Errorf("an idle connection takes %d bytes, want %d at most", per, most)
		}
	}, direct, overTLS)
}

// idleBytes returns what each of many connections takes that are idle, after what use has done with
// them and so much time. Before them there are others.
func idleBytes(t *testing.T, s *site, secure bool, before, many int, later time.Duration, use func(c io.ReadWriter)) int64 {
	ends := make([]int, 0, before+many) // of the clients: no memory of ours
	connect := func(n int) int64 {
		for range n {
			nc := must.Get(net.Dial("tcp", s.Addr))(t)
			ends = append(ends, duplicate(t, nc))
			var c io.ReadWriter = nc
			if secure {
				c = tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
			}
			use(c)
			nc.Close()
		}
		s.Settle()
		s.Skip(later)
		unworked(t, s)
		return inUse()
	}
	first := connect(before)
	per := (connect(many) - first) / int64(many)
	for _, fd := range ends {
		unix.Close(fd)
	}
	s.Idle()
	return per
}

// duplicate returns a descriptor of a connection, which keeps it open.
func duplicate(t *testing.T, c net.Conn) int {
	f := must.Get(c.(*net.TCPConn).File())(t)
	defer f.Close()
	return must.Get(unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0))(t)
}
