package networks_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/internal/test/must"
)

func TestOf(t *testing.T) {
	for client, want := range map[string]string{
		"192.0.2.7":             "192.0.2.7",
		"::ffff:192.0.2.7":      "192.0.2.7",
		"2001:db8:1:2:3:4:5:6":  "2001:db8:1:2::",
		"fe80::1%eth0":          "fe80::",
		"2001:db8:1:2:ffff::ff": "2001:db8:1:2::",
	} {
		if got := networks.Of(netip.MustParseAddr(client)); got.String() != want {
			t.Errorf("%s: %v, want %s", client, got, want)
		}
	}
	if networks.Of(netip.Addr{}).IsValid() {
		t.Error("a client without an address got one")
	}
}

func TestSet(t *testing.T) {
	for _, test := range []struct{ list, in, out string }{
		{"", "", "192.0.2.7 ::1 unix"},
		{"10.0.0.0/8 192.0.2.7", "10.0.0.0 10.255.255.255 192.0.2.7 ::ffff:10.1.2.3",
			"9.255.255.255 11.0.0.0 192.0.2.6 192.0.2.8 ::1 ::a00:1 unix"},
		{"2001:db8::/32 ::1", "2001:db8::1 2001:db8:ffff::%eth0 ::1", "2001:db9:: ::2 0.0.0.1 unix"},
		{"0.0.0.0/0", "1.2.3.4 ::ffff:1.2.3.4", "::1 unix"},
		{"::/0", "::1 2001:db8::", "1.2.3.4 unix"},
		{"::ffff:10.0.0.0/104", "10.1.2.3", "::1"},
		{"unix:", "unix", "127.0.0.1 ::1"},
		{"10.0.0.0/8 10.2.0.0/16 10.2.3.0/24", "10.2.3.4 10.2.4.4 10.3.4.4", "11.2.3.4"},
	} {
		s := must.Get(networks.Parse(strings.Fields(test.list)))(t)
		for want, clients := range map[bool]string{true: test.in, false: test.out} {
			for _, client := range strings.Fields(clients) {
				addr, _ := netip.ParseAddr(client) // "unix": none
				if s.Contains(addr) != want {
					t.Errorf("%s: %s: not %v", test.list, client, want)
				}
			}
		}
	}
}

// TestMap: the smallest network has the last word.
func TestMap(t *testing.T) {
	m := must.Get(networks.NewMap(map[string]string{"10.0.0.0/8": "a", "10.2.0.0/16": "b",
		"10.2.3.4": "c", "2001:db8::/32": "d", networks.Unix: "e"}))(t)
	for client, want := range map[string]string{"10.1.1.1": "a", "10.2.1.1": "b", "10.2.3.4": "c",
		"::ffff:10.2.1.1": "b", "2001:db8::1": "d", "": "e", "192.0.2.1": "", "::1": ""} {
		addr, _ := netip.ParseAddr(client)
		if got, ok := m.Find(addr); got != want || ok != (want != "") {
			t.Errorf("%s: %q, want %q", client, got, want)
		}
	}
	_, err := networks.NewMap(map[string]string{"192.0.2.7": "", "192.0.2.7/32": ""})
	if err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("the same network twice: %v", err)
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "expected a network or an address",
		"example.org":         "expected a network or an address",
		"10.0.0.0/33":         "expected a network or an address",
		"10.0.0/8":            "expected a network or an address",
		"fe80::1%eth0":        "expected a network or an address",
		"::ffff:10.0.0.0/90":  "expected a network or an address",
		"10.1.2.3/8":          `"10.1.2.3/8" is no network: that one begins at 10.0.0.0/8`,
		"2001:db8::1/64":      "begins at 2001:db8::/64",
		"10.0.0.0-10.0.0.255": "expected a network or an address",
	} {
		if _, err := networks.Parse([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestContainsAllocatesNothing(t *testing.T) {
	s := must.Get(networks.Parse([]string{"10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32"}))(t)
	client := netip.MustParseAddr("198.51.100.7")
	if n := testing.AllocsPerRun(100, func() { s.Contains(client) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
