package config_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestMessagesHaveWholeCharacters: no message cuts a character that is not ASCII in two.
func TestMessagesHaveWholeCharacters(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "t.conf")
	for i, at := range allSpots() {
		texts := takes(at.typ, "x") || takes(at.typ, []any{"x"})
		for j, value := range []string{"ä", "1.2.3.ä", "http://ä:1/ä", "ä:80", "[::ä]:80", "10.0.0.0/ä",
			"127.0.0.1:ä", "~ä(", "{ä}", "unix:ä\t",
			"/ä/", "ä.example", strings.Repeat("ä", 50), "a" + strings.Repeat("ä", 50)} {
			if !texts && len(value) < 50 || !inTurn(i, j) {
				continue
			}
			_, err := source().Parse(file, at.before+at.key+" = "+fmt.Sprintf("%q", value)+"\n")
			if err != nil && (strings.Contains(err.Error(), `\x`) ||
				strings.ToValidUTF8(err.Error(), "") != err.Error()) {
				t.Errorf("%q: %v", value, err)
			}
		}
	}
}
