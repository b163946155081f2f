package server

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http2"
)

// Streams opens that many streams of HTTP/2 on one connection in clear text, each with those fields
// (names and values by turns) and, unless it is empty, content behind them. It reads until each was
// answered by content that ends with want, and returns the connection. It keeps nothing of a
// stream, so that a test can measure the server.
func (s *Server) Streams(many int, fields []string, content, want string) net.Conn {
	s.T.Helper()
	c := must.Get(net.Dial("tcp", s.Addr))(s.T)
	var block []byte
	for i := 0; i < len(fields); i += 2 {
		block = http2.AppendField(block, fields[i], fields[i+1])
	}
	out := http2.AppendHeader([]byte(http2.Preface), http2.SettingsFrame, 0, 0, 0)
	for i := range many {
		id, flags := uint32(2*i+1), uint8(http2.EndHeaders)
		if content == "" {
			flags |= http2.EndStream
		}
		out = append(http2.AppendHeader(out, http2.Headers, flags, id, len(block)), block...)
		if content != "" {
			out = append(http2.AppendHeader(out, http2.Data, 0, id, len(content)), content...)
		}
	}
	must.Get(c.Write(out))(s.T)
	readContents(s.T, c, many, want)
	return c
}

// readContents reads frames until so many Data frames have ended with want.
func readContents(t testing.TB, c net.Conn, many int, want string) {
	t.Helper()
	var head [http2.FrameHeaderLen]byte
	for many > 0 {
		must.Get(io.ReadFull(c, head[:]))(t)
		h := http2.ParseHeader(head[:])
		p := make([]byte, h.Length)
		must.Get(io.ReadFull(c, p))(t)
		if h.Type == http2.RSTStream || h.Type == http2.GoAway {
			t.Fatalf("frame of type %d: %x", h.Type, p)
		}
		if h.Type == http2.Data && bytes.HasSuffix(p, []byte(want)) {
			many--
		}
	}
}
