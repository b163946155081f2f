package http1_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/http1"
)

var etagLists = []struct {
	list, etag   string
	weak, strong bool
}{
	// RFC 9110 section 8.8.3.2, the table of comparisons.
	{`W/"1"`, `W/"1"`, true, false},
	{`W/"1"`, `W/"2"`, false, false},
	{`W/"1"`, `"1"`, true, false},
	{`"1"`, `W/"1"`, true, false},
	{`"1"`, `"1"`, true, true},

	{`*`, `"1"`, true, true},
	{" *\t", `W/"1"`, true, true},
	{`*`, ``, false, false},
	{`"1"`, ``, false, false},
	{``, `"1"`, false, false},
	{`""`, `""`, true, true},
	{`"a", "b", "c"`, `"c"`, true, true},
	{`,"a",,	"b" ,W/"c",`, `"b"`, true, true},
	{`"a,b"`, `"a,b"`, true, true}, // a comma inside is no separator
	{`"a,b"`, `"b"`, false, false},
	{`"a\"`, `"a\"`, true, true}, // nor a backslash an escape
	{"\"\x80\"", "\"\x80\"", true, true},
	// Faults end the list.
	{`"a", b, "c"`, `"a"`, true, true},
	{`"a", b, "c"`, `"c"`, false, false},
	{`"a" "b"`, `"a"`, true, true},
	{`"a" "b"`, `"b"`, false, false},
	{`"a`, `"a"`, false, false},
	{`a`, `a`, false, false},
	{`w/"a"`, `"a"`, false, false},
	{`W/`, `W/`, false, false},
	{`W/ "a"`, `"a"`, false, false},
	{`"a b"`, `"a b"`, false, false},
	{`*, "a"`, `"a"`, false, false},
}

func TestMatchETag(t *testing.T) {
	for _, tt := range etagLists {
		if got := http1.MatchETag(tt.list, tt.etag, true); got != tt.weak {
			t.Errorf("weak %q, %q: %v", tt.list, tt.etag, got)
		}
		if got := http1.MatchETag(tt.list, tt.etag, false); got != tt.strong {
			t.Errorf("strong %q, %q: %v", tt.list, tt.etag, got)
		}
	}
}

// validETag reports whether s is an entity tag, by another reading of RFC 9110 section 8.8.3.
func validETag(s string) bool {
	s = strings.TrimPrefix(s, "W/")
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return false
	}
	for _, c := range []byte(s[1 : len(s)-1]) {
		if c <= ' ' || c == '"' || c == 0x7f {
			return false
		}
	}
	return true
}

func TestETagForms(t *testing.T) {
	for _, s := range []string{`"a"`, `W/"a"`, `""`, "\"\x80\xff!\""} {
		if !http1.MatchETag(s, s, true) {
			t.Errorf("%q does not match itself", s)
		}
	}
	for _, s := range []string{``, `a`, `"a`, `"a"b`, `"a "`, `"`, `W/"`, "\"\x7f\"", `w/"a"`} {
		if http1.MatchETag(s, s, true) {
			t.Errorf("%q is none", s)
		}
	}
}

func FuzzMatchETag(f *testing.F) {
	for _, tt := range etagLists {
		f.Add(tt.list, tt.etag)
	}
	f.Fuzz(func(t *testing.T, list, etag string) {
		weak, strong := http1.MatchETag(list, etag, true), http1.MatchETag(list, etag, false)
		if strong && !weak {
			t.Fatal("a strong match is no weak one")
		}
		if weak && !strings.Contains(list, strings.TrimPrefix(etag, "W/")) &&
			strings.Trim(list, " \t") != "*" {
			t.Fatal("a match with nothing in the list")
		}
		if opaque := strings.TrimPrefix(etag, "W/"); opaque != `"x"` &&
			http1.MatchETag(`"x"y ,`+etag, etag, true) {
			t.Fatal("a fault in the list was skipped")
		}
		if validETag(etag) && !http1.MatchETag(", "+etag+","+list, etag, true) {
			t.Fatal("the first of a list does not match")
		}
	})
}
