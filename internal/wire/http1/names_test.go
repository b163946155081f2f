package http1_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/http1"
)

func TestNames(t *testing.T) {
	hop := []string{"Connection", "Keep-Alive", "TE", "Upgrade", "Proxy-Connection",
		"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info"}
	framing := []string{"Content-Length", "Transfer-Encoding"}
	for _, name := range append(append([]string{"", "Trailer", "Host", "Proxy-Status", "Date",
		"Content-Lengths", "XE", "Upgrades"}, hop...), framing...) {
		for _, name := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			in := func(list []string) bool {
				for _, l := range list {
					if strings.EqualFold(l, name) {
						return true
					}
				}
				return false
			}
			if http1.HopByHop(name) != in(hop) || http1.Framing(name) != in(framing) {
				t.Errorf("%q: %v, %v", name, http1.HopByHop(name), http1.Framing(name))
			}
		}
	}
}

func TestSplitPort(t *testing.T) {
	for authority, want := range map[string][2]string{
		"a.test": {"a.test", ""}, "a.test:80": {"a.test", "80"}, "a.test:": {"a.test", ""},
		"[::1]": {"[::1]", ""}, "[::1]:80": {"[::1]", "80"}, "": {"", ""}, "1.2.3.4:5": {"1.2.3.4", "5"},
	} {
		if host, port := http1.SplitPort(authority); [2]string{host, port} != want {
			t.Errorf("%q: %q, %q", authority, host, port)
		}
	}
}
