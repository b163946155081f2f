package http1_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/http1"
)

// hostAccepted reports whether the value passes as a Host field.
func hostAccepted(value string) bool {
	var h http1.Head
	_, err := parse(&h, "GET / HTTP/1.1\r\nHost: "+value+"\r\n\r\n")
	return err == nil
}

var hosts = []struct {
	value string
	ok    bool
}{
	{"", false},
	{"example.org", true},
	{"example.org.", true},
	{"example.org:8080", true},
	{"example.org:", true}, // RFC 3986 section 3.2.3
	{"example.org:0", true},
	{"example.org:00080", true},
	{"example.org:65535", true},
	{"example.org:65536", false},
	{"example.org:99999999999999999999999", false},
	{"example.org:http", false},
	{"example.org:80:80", false},
	{"example.org:+80", false},
	{":", false},
	{":80", false},
	{"a_b~c!$&'()*+;=", true}, // what reg-name allows, a comma aside
	{"a%20b", false},
	{"admin%2etest", false},
	{"%61", false},
	{"a%2", false},
	{"a%zz", false},
	{"a%", false},
	{"a\tb", false},
	{"a\\b", false},
	{"a<b>", false},
	{"a?b", false},
	{"a#b", false},
	{"127.0.0.1:80", true},
	{"[::1]", true},
	{"[::1]:80", true},
	{"[::1]80", false},
	{"[::1", false},
	{"[]", false},
	{"::1", false},
	{"[::1]]", false},
	{"[v1.a]", false},
	{"[fe80::1%25eth0]", false},
	{"[127.0.0.1]", false},
}

func TestHost(t *testing.T) {
	for _, tt := range hosts {
		if got := hostAccepted(tt.value); got != tt.ok {
			t.Errorf("%q: %v", tt.value, got)
		}
	}
}

// Addresses in brackets are judged as net/netip judges them: all strings of up to five parts, and
// long ones around the limit of eight groups.
func TestIPv6(t *testing.T) {
	check := func(s string) {
		_, err := netip.ParseAddr(s)
		if want := err == nil && strings.Contains(s, ":"); hostAccepted("["+s+"]") != want {
			t.Fatalf("%q: want %v", s, want)
		}
	}
	parts := []string{"1", ":", "::", ":abcd", ":0:1.2.3.4"}
	var build func(prefix string, depth int)
	build = func(prefix string, depth int) {
		check(prefix)
		if depth > 0 {
			for _, p := range parts {
				build(prefix+p, depth-1)
			}
		}
	}
	build("", 5)
	for n := range 10 {
		groups := strings.TrimSuffix(strings.Repeat("1:", n), ":")
		for _, s := range []string{groups, "::" + groups, groups + "::", groups + ":1.2.3.4",
			"1::" + groups, "::" + groups + ":1.2.3.4"} {
			check(s)
		}
	}
	for _, s := range []string{"::12345", "::g", "::1.2.3", "::1.2.3.4.5", "::01.2.3.4", "::256.2.3.4",
		"::1.2.3.", "::.2.3.4", "::1.2.3.4:1", "1.2.3.4::"} {
		check(s)
	}
}

func FuzzHost(f *testing.F) {
	for _, tt := range hosts {
		f.Add(tt.value)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var h http1.Head
		n, err := parse(&h, "GET / HTTP/1.1\r\nHost: "+s+"\r\n\r\n")
		if errors.Is(err, http1.ErrHost) || n == 0 || strings.ContainsAny(s, "\r\n") {
			return
		}
		value := strings.Trim(s, " \t")
		if strings.ContainsAny(value, " \t/\\@?#\"<>^`{|}") {
			t.Fatalf("%q accepted", value)
		}
		if addr, _, ok := strings.Cut(strings.TrimPrefix(value, "["), "]"); ok {
			if _, err := netip.ParseAddr(addr); err != nil {
				t.Fatalf("%q accepted: %v", value, err)
			}
		}
	})
}
