package http2client_test

import (
	"errors"
	"io"
	"testing"

	"github.com/lwango/lwango/internal/wire/http2"
)

// TestCut: the orderly end of the connection is not the end of an answer. END_STREAM alone is that
// (RFC 9113 section 8.1).
func TestCut(t *testing.T) {
	t.Parallel()
	head := raw(http2.Headers, endHeaders, 1, ok)
	sized := raw(http2.Headers, endHeaders, 1, ok+block("content-length", "10"))
	half := raw(http2.Data, 0, 1, "hello")
	for name, tt := range map[string]struct {
		frames []byte
		body   string
	}{
		"no head":          {nil, ""},
		"interim head":     {raw(http2.Headers, endHeaders, 1, block(":status", "103")), ""},
		"head":             {head, ""},
		"content":          {join(head, half), "hello"},
		"half of a length": {join(sized, half), "hello"},
		"all of a length":  {join(sized, half, half), "hellohello"}, // and perhaps a trailer
		"inside a frame":   {join(head, half, half)[:len(head)+len(half)+9+2], "hello"},
		"inside a head":    {join(head, half, raw(http2.Headers, 0, 1, "")), "hello"},
		"behind a GOAWAY": {join(head, half, http2.AppendGoAway(nil, 1, http2.NoError, "")),
			"hello"},
		"behind its own SHUTWR": {join(head, half), "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := dial(t, run(t), "", func(p *fakeServer) {
				p.await(http2.Headers)
				_, _ = p.Write(tt.frames)
				if name == "behind its own SHUTWR" {
					_ = p.Conn.(interface{ CloseWrite() error }).CloseWrite()
					p.drain()
				}
			})
			if g := s.get(); !errors.Is(g.err, io.ErrUnexpectedEOF) || g.body != tt.body {
				t.Error(g)
			}
			<-s.ended
		})
	}
}

func join(all ...[]byte) (b []byte) {
	for _, f := range all {
		b = append(b, f...)
	}
	return b
}
