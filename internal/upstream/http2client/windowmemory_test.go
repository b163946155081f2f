package http2client_test

import (
	"io"
	"testing"

	"github.com/lwango/lwango/internal/wire/http2"
)

// TestFirstWindow: many answers whose readers stand still take no more memory than is allowed to
// each of them by SETTINGS, and that is little.
func TestFirstWindow(t *testing.T) {
	t.Parallel()
	const bound = 64 << 10
	announced := make(chan uint32, 1)
	dialRaw(t, run(t), func(p *fakeServer) {
		_, _ = io.CopyN(io.Discard, p, int64(len(http2.Preface)))
		window := uint32(http2.DefaultWindow)
		f, _ := p.await(http2.SettingsFrame)
		for payload := f.payload; len(payload) >= 6; payload = payload[6:] {
			if http2.Setting(payload[1]) == http2.InitialWindowSize {
				window = http2.Uint32(payload[2:])
			}
		}
		announced <- window
	})
	if n := <-announced; n > bound {
		t.Errorf("%d bytes", n)
	}
}
