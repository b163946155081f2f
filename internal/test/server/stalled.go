package server

import (
	"bufio"
	"io"
	"net"
	"sync/atomic"

	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// StalledBytes returns what each of many streams of HTTP/2 takes, in clear text, whose client asks
// for path and takes window bytes of the answer, no more. The caller's still is told how many
// requests have been sent, and returns when nothing moves any more, as far as that is not for the
// loops to say; nil: that is all. In the end the client takes the rest: each answer has size bytes.
func (s *Server) StalledBytes(path string, window, size int, still func(requests int)) int64 {
	s.T.Helper()
	const before, many = 20, 100
	first := s.stall(path, before, window)
	settle := func(n int) int64 {
		s.T.Helper()
		s.Settled("all wait", func(l *loop.Loop) bool { return s.Server.Stats(l).Streams == int64(n) })
		if still != nil {
			still(n)
		}
		s.Settle()
		s.Skip(0)
		return leak.InUse()
	}
	base := settle(before)
	second := s.stall(path, many, window)
	each := (settle(before+many) - base) / many
	first.take(before, window, size)
	second.take(many, window, size)
	return each
}

// stalled is a connection of HTTP/2 with windows that are shut.
type stalled struct {
	s   *Server
	c   net.Conn
	got atomic.Int64 // bytes of content
	bad atomic.Int64 // the type of a frame that ends a stream early, and 1
}

// stall opens streams whose windows have so many bytes, and returns when these have come.
func (s *Server) stall(path string, streams, window int) *stalled {
	s.T.Helper()
	st := &stalled{s: s, c: must.Get(net.Dial("tcp", s.Addr))(s.T)}
	var block []byte
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", path},
		{":authority", "a"}} {
		block = http2.AppendField(block, f[0], f[1])
	}
	out := http2.AppendHeader([]byte(http2.Preface), http2.SettingsFrame, 0, 0, 6)
	out = http2.AppendSetting(out, http2.InitialWindowSize, uint32(window))
	out = http2.AppendWindowUpdate(out, 0, 1<<30)
	for i := range streams {
		out = http2.AppendHeader(out, http2.Headers, http2.EndHeaders|http2.EndStream, uint32(2*i+1),
			len(block))
		out = append(out, block...)
	}
	must.Get(st.c.Write(out))(s.T)
	go st.read()
	st.until("the windows' bytes", int64(streams*window))
	return st
}

// read counts what comes, until the connection ends.
func (st *stalled) read() {
	var head [http2.FrameHeaderLen]byte
	r := bufio.NewReader(st.c)
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		h := http2.ParseHeader(head[:])
		if _, err := r.Discard(int(h.Length)); err != nil {
			return
		}
		switch h.Type {
		case http2.Data:
			st.got.Add(int64(h.Length))
		case http2.RSTStream, http2.GoAway:
			st.bad.CompareAndSwap(0, int64(h.Type)+1)
		}
	}
}

// take opens the windows, and returns when all answers have come.
func (st *stalled) take(streams, window, size int) {
	st.s.T.Helper()
	out := http2.AppendHeader(nil, http2.SettingsFrame, 0, 0, 6)
	must.Get(st.c.Write(http2.AppendSetting(out, http2.InitialWindowSize, uint32(window+size))))(
		st.s.T)
	st.until("the rest", int64(streams*size))
	st.c.Close()
}

func (st *stalled) until(what string, n int64) {
	st.s.T.Helper()
	wait.Until(st.s.T, what, func() bool { return st.got.Load() >= n || st.bad.Load() > 0 })
	if got, bad := st.got.Load(), st.bad.Load(); got != n || bad > 0 {
		st.s.T.Errorf("%d bytes of content, want %d; frame %d", got, n, bad-1)
	}
}
