package asynclog_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/asynclog"
)

// TestTextIsCutAfterEscaping: what a client sends does not grow by its escapes.
func TestTextIsCutAfterEscaping(t *testing.T) {
	attr := regexp.MustCompile(`"?target"?[=:](.*?)}?\n`)
	for _, isJSON := range []bool{false, true} {
		var got bytes.Buffer
		l := asynclog.New(&got)
		l.SetJSON(isJSON)
		for _, text := range []string{"\x01", "\xff", `"`, `\`, "<", "é", "\u0085",
			"\u202e", "\U000e0001", "a\x7f"} {
			for shift := range 8 {
				got.Reset()
				l.Logger().Info("m"+text, "target", strings.Repeat("x", shift)+strings.Repeat(text, 2000))
				l.Flush(time.Minute)
				line := got.String()
				m := attr.FindStringSubmatch(line)
				if m == nil {
					t.Fatalf("no target in %q", line)
				}
				if n := len(m[1]) - len(`""`); n > 256 || n < 40 { // escapes differ by format
					t.Errorf("%q takes %d bytes: %s", text, n, line)
				}
				if !strings.HasSuffix(strings.TrimSuffix(m[1], `"`), "...") {
					t.Errorf("%q: no mark: %s", text, line)
				}
				if isJSON && !json.Valid([]byte(line)) {
					t.Errorf("%q: not JSON: %s", text, line)
				}
			}
		}
		l.Close(time.Minute)
	}
}
