package cgi_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/cgi"
)

func TestServerName(t *testing.T) {
	for _, tt := range []struct{ names, host, want string }{
		{"", "evil.example", ""},
		{"a.example", "a.example", "a.example"},
		{"a.example", "A.Example:8080", "a.example"},
		{"a.example", "a.example.", "a.example"},
		{"a.example", "evil.example", "a.example"},
		{"a.example", "", "a.example"},
		{"a.example b.example", "b.example:1", "b.example"},
		{"a.example b.example", "c.example", "a.example"},
		{"*.a.example a.example", "x.a.example:1", "x.a.example"},
		{"*.a.example a.example", "a.example", "a.example"},
		{"*.a.example a.example", "xa.example", "a.example"},
		{"*.a.example a.example", ".a.example", "a.example"},
		{"*.a.example", "b.example", "a.example"},
		{"*.a.example", "x-1.Y.a.example", "x-1.Y.a.example"},
		// valid in a host, and markup in a page
		{"*.a.example b.example", "x'y.a.example", "b.example"},
		{"*.a.example b.example", "x;y.a.example", "b.example"},
		{"*.a.example b.example", "x&amp.a.example", "b.example"},
		{"*.a.example b.example", "x%3Cy.a.example", "b.example"},
		{"*.a.example", "x_y.a.example", "a.example"},
		{"*.a.example", "x(y).a.example:80", "a.example"},
		{"*.a.example *.example", "x,y.example", "a.example"},
		{"::1 a.example", "[::1]:81", "[::1]"},
		{"[::1]", "[::1]", "[::1]"},
		{"[::1]", "a.example", "[::1]"},
	} {
		if got := cgi.ServerName(strings.Fields(tt.names), tt.host); got != tt.want {
			t.Errorf("%q, %q: %q, want %q", tt.names, tt.host, got, tt.want)
		}
	}
	names := []string{"*.a.example", "b.example"}
	if n := testing.AllocsPerRun(100, func() { cgi.ServerName(names, "x.a.example:80") }); n != 0 {
		t.Error(n, " allocations")
	}
}
