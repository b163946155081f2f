package ascii_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/base/ascii"
)

// TestFold compares every byte with every other one against the letters of ASCII, written out.
func TestFold(t *testing.T) {
	const small, large = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for c := range 256 {
		low := byte(c)
		if i := strings.IndexByte(large, low); i >= 0 {
			low = small[i]
		}
		if got := ascii.Lower(byte(c)); got != low {
			t.Errorf("Lower(%q) = %q", byte(c), got)
		}
		if got, want := ascii.ToLower("A"+string([]byte{byte(c)})), "a"+string([]byte{low}); got != want {
			t.Errorf("ToLower gives %q, want %q", got, want)
		}
		for d := range 256 {
			want := low == ascii.Lower(byte(d))
			a, b := []byte{'x', byte(c)}, string([]byte{'X', byte(d)})
			if got := ascii.EqualFold(a, b); got != want {
				t.Errorf("EqualFold(%q, %q) = %v", a, b, got)
			}
			if got := ascii.HasPrefixFold(b+"y", string(a)); got != want {
				t.Errorf("HasPrefixFold(%q, %q) = %v", b+"y", a, got)
			}
		}
	}
	for _, tt := range []struct {
		s, prefix     string
		equal, begins bool
	}{
		{"", "", true, true},
		{"a", "", false, true},
		{"", "a", false, false},
		{"Content-Type", "content-type", true, true},
		{"Content-Types", "content-type", false, true},
		{"Content-Typ", "content-type", false, false},
		{"\u212aeep", "keep", false, false}, // the Kelvin sign
		{"\u017fsi", "ssi", false, false},   // the long s
	} {
		if got := ascii.EqualFold(tt.s, tt.prefix); got != tt.equal {
			t.Errorf("EqualFold(%q, %q) = %v", tt.s, tt.prefix, got)
		}
		if got := ascii.HasPrefixFold([]byte(tt.s), []byte(tt.prefix)); got != tt.begins {
			t.Errorf("HasPrefixFold(%q, %q) = %v", tt.s, tt.prefix, got)
		}
	}
}
