package http2client_test

import (
	"errors"
	"testing"

	"github.com/lwango/lwango/internal/upstream/http2client"
	"github.com/lwango/lwango/internal/wire/http2"
)

// TestRefusedLate: behind the beginning of an answer REFUSED_STREAM and GOAWAY do not say that the
// request can be sent again.
func TestRefusedLate(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string][]byte{
		"reset":  http2.AppendReset(nil, 1, http2.RefusedStream),
		"goaway": http2.AppendGoAway(nil, 0, http2.NoError, ""),
	} {
		for _, head := range []string{ok, block(":status", "103")} {
			s := dial(t, run(t), "", func(p *fakeServer) {
				p.await(http2.Headers)
				p.send(http2.Headers, endHeaders, 1, head)
				_, _ = p.Write(refusal)
				p.drain()
			})
			if g := s.get(); g.err == nil || errors.Is(g.err, http2client.ErrRefused) {
				t.Error(name, g)
			}
		}
	}
}
