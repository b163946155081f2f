package rules_test

import (
	"testing"

	"github.com/lwango/lwango/handlers/rules"
)

func TestValuePattern(t *testing.T) {
	for _, c := range []struct {
		pattern, value string
		want           bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "a/b", true}, {"*bot*", "a/bot", true},
		{"~^a+$", "aaa", true}, {"~^a+$", "ab", false}, {"~(?i)bot", "GoogleBOT/1", true},
	} {
		if got, err := rules.Value(c.pattern, []byte(c.value)); got != c.want || err != nil {
			t.Errorf("%q, %q: got %v, %v", c.pattern, c.value, got, err)
		}
	}
}
