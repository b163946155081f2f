package upstream_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/upstream"
)

// addressesOf returns n addresses, in order.
func addressesOf(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("127.1.%d.%d", i/200, 1+i%200))
	}
	return all
}

// TestServiceBounds: a service has 256 addresses at most, whatever its records and hosts are, and
// of too many it has the same ones each time: those of the first priority, and of the greatest
// weight there.
func TestServiceBounds(t *testing.T) {
	names := &nameService{zone: new(zone)}
	startNames(t, names)
	addrs := func() []string { return must.Get(upstream.ServiceAddrs(t.Context(), theService))(t) }

	var ports []net.SRV
	for i := range 64 {
		ports = append(ports, net.SRV{Target: "one.test.", Port: uint16(1 + i)})
	}
	names.zone.set(map[string][]net.SRV{theService: ports},
		map[string][]string{"one.test": addressesOf(1000)})
	if all := addrs(); len(all) != 256 || !slices.Contains(all, "127.1.0.1:1") {
		t.Error(len(all), " addresses of many ports and addresses")
	}

	var records []net.SRV
	hosts := make(map[string][]string)
	for i, a := range addressesOf(300) {
		host := fmt.Sprint("h", i, ".test")
		records = append(records, net.SRV{Target: host + ".", Port: 1, Weight: uint16(i / 299)})
		hosts[host] = []string{a}
	}
	names.zone.set(map[string][]net.SRV{theService: records}, hosts)
	before := addrs()
	if len(before) != 256 || !slices.Contains(before, hosts["h299.test"][0]+":1") {
		t.Error(len(before), " addresses of many hosts; the greatest weight must be among them")
	}
	if now := addrs(); !slices.Equal(before, now) {
		t.Error("the next look-up has other addresses")
	}
}

// TestServicePrimariesFirst: many addresses of backups do not push out those of the first priority.
func TestServicePrimariesFirst(t *testing.T) {
	names := &nameService{zone: new(zone)}
	startNames(t, names)
	port := startAt(t, "127.9.0.1:0", says("a")).listener.Addr().(*net.TCPAddr).AddrPort().Port()
	names.zone.set(map[string][]net.SRV{theService: {
		{Target: "many.test.", Port: port, Priority: 2}, {Target: "one.test.", Port: port, Priority: 1}}},
		map[string][]string{"many.test": addressesOf(300), "one.test": {"127.9.0.1"}})
	r := newRoute(t, new(upstream.Pool), []string{theService}, nil)
	if got := r.texts(3); got != "aaa" {
		t.Error(got)
	}
}

// TestServiceTargetErr: where the look-up of one host of a service fails, it is repeated soon, and
// the log says so once until it works again.
func TestServiceTargetErr(t *testing.T) {
	z, _, pool, r, ports := startService(t, nil, "a")
	records := map[string][]net.SRV{
		theService: {{Target: "one.test.", Port: ports["a"]}, {Target: "two.test.", Port: ports["a"]}}}
	good := map[string][]string{"one.test": {"127.0.0.1"}, "two.test": {"127.0.0.1"}}
	bad := map[string][]string{"one.test": {"127.0.0.1"}, "two.test": {"?"}}
	z.set(records, bad)
	if ttl := must.Get(upstream.ServiceTTL(t.Context(), theService))(t); ttl != 5*time.Second {
		t.Error(ttl)
	}
	r.get("x")
	for range 2 {
		for range 2 {
			pool.LookUp()
			r.get("x")
		}
		r.get("x")
		if got := r.missed(); !slices.Equal(got, []string{theService}) {
			t.Errorf("%q", got)
		}
		z.set(records, good)
		pool.LookUp()
		r.get("x")
		z.set(records, bad)
	}
	if got := r.missed(); got != nil {
		t.Errorf("%q, though it works again", got)
	}
}

// TestBackupBehindService: an address that is a backup comes behind all priorities of a service.
func TestBackupBehindService(t *testing.T) {
	names := &nameService{zone: new(zone)}
	startNames(t, names)
	ports := make(map[string]uint16)
	for _, name := range []string{"a", "b", "c"} {
		ports[name] = startAt(t, "127.0.0.1:0",
			says(name)).listener.Addr().(*net.TCPAddr).AddrPort().Port()
	}
	at := func(name string) string { return "127.0.0.1:" + strconv.Itoa(int(ports[name])) }
	names.zone.set(
		map[string][]net.SRV{theService: {{Target: "one.test.", Port: ports["a"], Priority: 1},
			{Target: "one.test.", Port: ports["b"], Priority: 2}}},
		map[string][]string{"one.test": {"127.0.0.1"}})
	pool := new(upstream.Pool)
	r := newRoute(t, pool, []string{at("c") + " backup", theService}, nil)
	pool.LookUp() // a request would not wait, as there is a backup
	for _, want := range []string{"aaaa", "bbbb", "cccc"} {
		if got := r.texts(4); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		r.SetState(at(want[:1]), "down")
	}
}

// TestSourceOfOtherFamily: a name that has only addresses that cannot be reached from source says
// so.
func TestSourceOfOtherFamily(t *testing.T) {
	names := new(nameService)
	names.resolveTo("127.0.0.1")
	startNames(t, names)
	r := newRoute(t, new(upstream.Pool), []string{"app.test:80"}, func(s *upstream.Settings) {
		s.Source = netip.IPv6Loopback()
	})
	if g := r.get("x"); g.err == nil ||
		g.err.Error() != "the name has no address of the family of source" {
		t.Error(g)
	}
}
