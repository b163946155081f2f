package relay_test

import (
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/http2"
	"github.com/lwango/lwango/internal/invariants"
	"github.com/lwango/lwango/internal/relay"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/loop"
)

// TestHeldByWindow: an answer that its client's window does not take holds 48 KiB at most, with the
// stack of its thread, and the client gets all of it when it opens the window. Other tests do not run
// meanwhile, as this one looks at the memory of the process.
func TestHeldByWindow(t *testing.T) {
	ci.Without(t, invariants.Enabled || race.Enabled, "it looks at the memory of the process")
	const streams, size = 100, 600_000
	piece := make([]byte, 20_000)
	s := server.Start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		var f relay.Flow
		defer f.Drop()
		f.Begin(req, w, 1<<20, slog.Default(), false)
		for range size / len(piece) {
			if err := f.Write(piece); err != nil {
				return 500
			}
		}
		_ = f.Drain(false)
		return 200
	}})
	c := must.Get(net.Dial("tcp", s.Addr))(t)
	defer c.Close()
	var block []byte
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "a"}} {
		block = http2.AppendField(block, f[0], f[1])
	}
	out := http2.AppendHeader([]byte(http2.Preface), http2.SettingsFrame, 0, 0, 6)
	out = http2.AppendSetting(out, http2.InitialWindowSize, 0)
	out = http2.AppendWindowUpdate(out, 0, 1<<30)
	for i := range uint32(streams) {
		out = append(http2.AppendHeader(out, http2.Headers, http2.EndHeaders|http2.EndStream, 2*i+1, len(block)), block...)
	}
	before := leak.InUse()
	must.Get(c.Write(out))(t)
	s.Settled("all wait", func(l *loop.Loop) bool { return s.Server.Tally(l).Streams == streams })
	s.Skip(0)
	if n := (leak.InUse() - before) / streams; n > 48<<10 {
		t.Errorf("%d bytes for a stream", n)
	}
	out = http2.AppendHeader(nil, http2.SettingsFrame, 0, 0, 6)
	must.Get(c.Write(http2.AppendSetting(out, http2.InitialWindowSize, 1<<20)))(t)
	r, got := &frames{c: c, t: t}, 0
	for got < streams*size {
		got += r.content()
	}
	if got != streams*size || strings.Contains(s.Log.String(), "level=ERROR") {
		t.Error(got, s.Log.String())
	}
}

// frames reads those of a server.
type frames struct {
	c net.Conn
	t *testing.T
	b [http2.HeaderSize + http2.FrameSize]byte
}

// content returns the length of the next Data frame.
func (f *frames) content() int {
	f.t.Helper()
	for {
		f.read(f.b[:http2.HeaderSize])
		h := http2.ParseHeader(f.b[:])
		f.read(f.b[http2.HeaderSize : http2.HeaderSize+int(h.Length)])
		switch h.Type {
		case http2.Data:
			return int(h.Length)
		case http2.RSTStream, http2.GoAway:
			f.t.Fatalf("frame of type %d", h.Type)
		}
	}
}

func (f *frames) read(p []byte) {
	f.t.Helper()
	for len(p) > 0 {
		p = p[must.Get(f.c.Read(p))(f.t):]
	}
}
