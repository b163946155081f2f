package accesslog_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLineIsCut: what a client writes into its head does not make a line of more than 2 KiB.
func TestLineIsCut(t *testing.T) {
	t.Parallel()
	escapes := regexp.MustCompile(`\\x[0-9A-F]{2}`)
	formats := []string{"combined", "common", "json", "{target} {referer} {user_agent} {host} {user}"}
	for _, text := range []string{"\x01", "\xff", "é", "\u0085", `"`, "a", "ab\x01", "a\u20ac"} {
		for shift := range 8 {
			hostile := []byte(strings.Repeat("x", shift) + strings.Repeat(text, 8000/len(text)))
			e := entry()
			e.Target, e.Referer, e.UserAgent, e.Host = hostile, hostile, hostile, hostile
			e.User = strings.Repeat(" ", 300)
			for _, format := range formats {
				line := lineOf(t, format, e)
				if len(line) > 2<<10 || len(line) < 500 {
					t.Fatalf("%s, %q: a line of %d bytes", format, text, len(line))
				}
				if !strings.Contains(line, "...") {
					t.Errorf("%s, %q: no mark in %q", format, text, line)
				}
				if !utf8.ValidString(line) {
					t.Errorf("%s, %q: not UTF-8: %q", format, text, line)
				}
				if format == "json" {
					if !json.Valid([]byte(line)) || bytes.Count([]byte(line), []byte("...")) < 4 {
						t.Errorf("%q: %s", text, line)
					}
				} else if strings.Contains(escapes.ReplaceAllString(line, ""), `\`) {
					t.Errorf("%s, %q: a cut escape in %q", format, text, line)
				}
			}
		}
	}
	e := entry()
	e.Target = []byte("/" + strings.Repeat("a", 1500))
	if line := lineOf(t, "combined", e); !strings.Contains(line, string(e.Target)) {
		t.Errorf("a line that fits is cut: %q", line)
	}
}
