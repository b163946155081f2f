package ascii_test

import (
	"testing"

	"github.com/lwango/lwango/internal/base/ascii"
)

func TestHasToken(t *testing.T) {
	for _, tt := range []struct {
		list, token string
		want        bool
	}{
		{"", "a", false},
		{",", "a", false},
		{"", "", false},
		{"a", "a", true},
		{"A", "a", true},
		{"a", "A", true},
		{"b,a", "a", true},
		{" ,\t, a\t,", "a", true},
		{"ab, ba", "a", false},
		{"a b", "a", false},
		{"a;q=1", "a", false},
		{"\x01", "!", false}, // bit 5 alone makes no letter
	} {
		if got := ascii.HasToken(tt.list, tt.token); got != tt.want {
			t.Errorf("HasToken(%q, %q) = %v", tt.list, tt.token, got)
		}
		if got := ascii.HasToken([]byte(tt.list), tt.token); got != tt.want {
			t.Errorf("HasToken([]byte(%q), %q) = %v", tt.list, tt.token, got)
		}
	}
	list := []byte("keep-alive, Upgrade")
	if n := testing.AllocsPerRun(100, func() { ascii.HasToken(list, "upgrade") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
