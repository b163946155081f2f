package upstream_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/upstream"
)

// TestAddresses: what is accepted, and the error of what is not.
func TestAddresses(t *testing.T) {
	long := "/" + strings.Repeat("x", 107)
	for _, tt := range []struct {
		addresses []string
		want      string
	}{
		{nil, ""},
		{[]string{"unix:run/php.sock", "[::1]:9000 weight=3 backup", "php:9000", "unix:@a"}, ""},
		{[]string{" "}, `expected unix:/path or host:port`},
		{[]string{"localhost"}, `expected unix:/path or host:port, not "localhost"`},
		{[]string{":80"}, `expected unix:/path or host:port, not ":80"`},
		{[]string{"unix:"}, `expected a path behind unix:`},
		{[]string{"unix:" + long},
			"the path of a UNIX socket has at most 107 bytes, " + long + " has 108"},
		{[]string{"a:0"}, `a:0: expected a port between 1 and 65535, not "0"`},
		{[]string{"a:http"}, `a:http: expected a port between 1 and 65535, not "http"`},
		{[]string{"a:1 weight=0"}, `a:1: expected a weight between 1 and 1000, not "0"`},
		{[]string{"a:1 weight=1001"}, `a:1: expected a weight between 1 and 1000, not "1001"`},
		{[]string{"https://a:1"}, `expected unix:/path or host:port, not "https://a:1"`},
		{[]string{"a:1 heavy"}, `a:1: expected weight=N, max_conns=N, max_fails=N or ` +
			`backup, not "heavy"`},
		{[]string{"a:1 max_conns=0"}, `a:1: expected a max_conns of at least 1, not "0"`},
		{[]string{"a:1 max_conns"}, `a:1: expected a max_conns of at least 1, not ""`},
		{[]string{"a:1 max_fails=0"}, `a:1: expected a max_fails above 0, or -1, which is none, not "0"`},
		{[]string{"a:1", "a:1 backup"}, `a:1: named twice`},
		{[]string{"unix:s", "unix:/srv/s"}, `unix:/srv/s: named twice`},
	} {
		_, err := new(upstream.Pool).Group(upstream.Settings{Addresses: tt.addresses, Dir: "/srv"})
		have := ""
		if err != nil {
			have = err.Error()
		}
		if have != tt.want {
			t.Errorf("%q: have %s, want %s", tt.addresses, have, tt.want)
		}
	}
}
