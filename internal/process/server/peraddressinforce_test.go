package server_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// TestPerAddressInForce: lwango -T shows how many connections an address may have, as far as that
// does not depend on the descriptors.
func TestPerAddressInForce(t *testing.T) {
	t.Parallel()
	shown := regexp.MustCompile(`(?m)^max_connections_per_address = (.*)$`)
	for text, want := range map[string]string{
		"": "0", "max_connections = 1000": "250", "max_connections = 10": "8",
		"max_connections = 1000\nmax_connections_per_address = -1": "-1",
		"max_connections = 1000\nmax_connections_per_address = 30": "30",
	} {
		file := filepath.Join(t.TempDir(), "t.conf")
		must.Write(t, file, text)
		if got := shown.FindStringSubmatch(inForce(t, file)); got == nil || got[1] != want {
			t.Errorf("%q: %q, want %s", text, got, want)
		}
	}
}
