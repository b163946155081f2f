package networks_test

import (
	"net/netip"
	"testing"

	"github.com/lwango/lwango/internal/base/networks"
)

// TestCounts: what each network and client network holds, and no entry for those that hold nothing
// any more.
func TestCounts(t *testing.T) {
	var c networks.Counts
	add := func(client string, n int64) {
		a, _ := netip.ParseAddr(client) // "": none
		c.Add(a, n)
	}
	add("192.0.2.1", 2)
	add("::ffff:192.0.2.1", 1)
	add("2001:db8:1:2::1", 10)
	add("2001:db8:1:2:ffff::2%eth0", 20)
	add("2001:db8:1:3::1", 100)
	add("2001:db8:1::1", 1000) // its /64 and its /48 begin at the same address
	add("", 5)
	for client, want := range map[string][2]int64{
		"192.0.2.1": {3, 3}, "192.0.2.2": {0, 0}, "2001:db8:1:2::9": {30, 1130},
		"2001:db8:1:3::9": {100, 1130}, "2001:db8:1:0::9": {1000, 1130}, "2001:db8:2:2::1": {0, 0},
		"": {0, 0},
	} {
		a, _ := netip.ParseAddr(client)
		if network, clientNet := c.Of(a); [2]int64{network, clientNet} != want {
			t.Errorf("%q: %d and %d, want %v", client, network, clientNet, want)
		}
	}
	if n := c.Len(); n != 5 {
		t.Errorf("%d entries", n)
	}
	add("192.0.2.1", -3)
	add("2001:db8:1:2::1", -30)
	add("2001:db8:1:3::1", -100)
	add("2001:db8:1::1", -1000)
	add("", -5)
	if n := c.Len(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}
