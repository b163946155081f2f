package fastcgi_test

import (
	"testing"

	"github.com/lwango/lwango/fastcgi"
)

// TestPrintable: no text that an application logs moves a terminal's cursor or looks like a line of
// its own.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain, größer, 日本":         "plain, größer, 日本",
		"two\r\nlines\tof\x00\x7f":  "two | lines of<00><7f>",
		"\x1b[31m \u009b31m \u0085": "<1b>[31m <9b>31m <85>",
		// Not UTF-8: a text that was cut, or a terminal's C1.
		"\x9b31m \xff \xe6\x97":       "<9b>31m <ff> <e6><97>",
		"\u202etxt.exe \u2028 \u200b": "<202e>txt.exe <2028> <200b>",
	} {
		if got := fastcgi.Printable([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
