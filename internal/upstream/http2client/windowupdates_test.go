package http2client_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/http2"
)

// TestUpdates: a server may take a burst of content, and announce afterwards, piece by piece, that
// it has read it.
func TestUpdates(t *testing.T) {
	t.Parallel()
	const size, piece = 8 << 20, 4 << 10
	s := dial(t, run(t), setting(http2.InitialWindowSize, size), func(p *fakeServer) {
		p.send(http2.WindowUpdate, 0, 0, uint32s(size))
		for left := size; left > 0; {
			f, _ := p.await(http2.Data)
			if f.Type == 0xff {
				return
			}
			left -= int(f.Length)
		}
		updates := append(raw(http2.WindowUpdate, 0, 0, uint32s(piece)),
			raw(http2.WindowUpdate, 0, 1, uint32s(piece))...)
		_, _ = p.Write(bytes.Repeat(updates, size/piece))
		p.send(http2.Headers, end|endHeaders, 1, ok)
		p.drain()
	})
	if g := <-s.start("POST", strings.Repeat("x", size)); g.status != 200 || g.err != nil {
		t.Error(g)
	}
}
