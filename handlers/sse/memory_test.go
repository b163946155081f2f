package sse_test

import (
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/internal/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/server"
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

// TestServeMemory: what an idle stream takes that follows a topic, with nine others, after an event.
func TestServeMemory(t *testing.T) {
	ci.Without(t, race.Enabled || invariants.Enabled, "these take memory of their own")
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		const many, before = 1000, 50
		most := int64(640)
		if m.TLS {
			most = 5 << 10
		}
		hub, room, n := new(pubsub.Hub), (*pubsub.Topic)(nil), 0
		s := server.Start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			if n%10 == 0 {
				room = hub.Topic(string(rune(n)))
			}
			n++
			return sse.Serve(req, resp, quiet{room})
		}})
		ends := make([]int, 0, before+many) // of the clients: no memory of ours
		first := int64(0)
		for i := range before + many {
			if i == before {
				unworked(t, s)
				first = inUse()
			}
			nc := must.Get(net.Dial("tcp", s.Addr))(t)
			ends = append(ends, duplicate(t, nc))
			var c io.ReadWriter = nc
			if m.TLS {
				c = tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
			}
			must.Get(io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
			for got, b := "", make([]byte, 500); !strings.Contains(got, "data: hello\n\n"); {
				got += string(b[:must.Get(c.Read(b))(t)])
			}
			nc.Close()
		}
		unworked(t, s)
		per := (inUse() - first) / many
		t.Logf("%d bytes", per)
		if per > most {
			t.Errorf("an idle stream takes %d bytes, want %d at most", per, most)
		}
		for _, fd := range ends {
			unix.Close(fd)
		}
		s.Idle()
	}, modes.Direct, modes.OverTLS)
}

// duplicate returns a descriptor of a connection, which keeps it open.
func duplicate(t *testing.T, c net.Conn) int {
	f := must.Get(c.(*net.TCPConn).File())(t)
	defer f.Close()
	return must.Get(unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0))(t)
}
