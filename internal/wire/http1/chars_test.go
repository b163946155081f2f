package http1_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/http1"
)

// Every byte at every place of a word and behind it, against the sets as the RFC writes them.
func TestCharacterSets(t *testing.T) {
	for c := range 256 {
		letter := strings.IndexByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
			byte(c)) >= 0
		token := letter || strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
		value := c == '\t' || c >= 0x20 && c != 0x7f
		target := c > 0x20 && c != 0x7f && c != '#'
		for at := range 20 {
			s := []byte(strings.Repeat("a", 20))
			s[at] = byte(c)
			if got := http1.ValidToken(s); got != token {
				t.Fatalf("ValidToken(%q) = %v", s, got)
			}
			if got := http1.ValidFieldValue(string(s)); got != value {
				t.Fatalf("ValidFieldValue(%q) = %v", s, got)
			}
			var h http1.Head
			// The byte is kept off the ends, where white space would be trimmed.
			n, _ := parse(&h, "GET / HTTP/1.0\r\nX: ."+string(s)+".\r\n\r\n")
			if got := n > 0; got != value {
				t.Fatalf("value %q accepted: %v", s, got)
			}
			h.Reset()
			n, _ = parse(&h, "GET /"+string(s)+" HTTP/1.0\r\n\r\n")
			if got := n > 0; got != target {
				t.Fatalf("target %q accepted: %v", s, got)
			}
			h.Reset() // by the quick path
			n, _ = parse(&h, "GET /"+string(s)+" HTTP/1.1\r\n"+string(s)+"x: a\r\nHost: a\r\n\r\n")
			if got := n > 0; got != (target && token) && c != ':' {
				t.Fatalf("target and field name %q accepted: %v", s, got)
			}
		}
	}
	if http1.ValidToken("") || !http1.ValidFieldValue("") {
		t.Error("the empty string is no token, but a value")
	}
}
