package config_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// TestLandlockByDefault: it is in force unless the file says the opposite, and -T says so.
func TestLandlockByDefault(t *testing.T) {
	for text, want := range map[string]bool{
		"[confine]\nseccomp = true\n": true, "[confine]\nlandlock = false\n": false,
	} {
		c := must.Get(source().Parse("t.conf", text))(t)
		var shown strings.Builder
		must.Do(t, c.WriteInForce(&shown, source()))
		if c.Confine.Landlock != want || strings.Contains(shown.String(), "landlock = true") != want {
			t.Errorf("%s: landlock is %v, and shown is\n%s", text, c.Confine.Landlock, shown.String())
		}
	}
}
