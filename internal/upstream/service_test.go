package upstream_test

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
)

// zone is what a name service knows of services: their records, and the addresses of their hosts.
type zone struct {
	mu      sync.Mutex
	records map[string][]net.SRV
	hosts   map[string][]string // of a host with "?" the look-up fails
}

func (z *zone) set(records map[string][]net.SRV, hosts map[string][]string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.records, z.hosts = records, hosts
}

// wire returns a name as messages have it.
func wire(name string) (b []byte) {
	for label := range strings.SplitSeq(strings.Trim(name, "."), ".") {
		if label != "" {
			b = append(append(b, byte(len(label))), label...)
		}
	}
	return append(b, 0)
}

// reply answers a question by the zone.
func (z *zone) reply(q []byte, ttl uint32) []byte {
	z.mu.Lock()
	defer z.mu.Unlock()
	name, at := "", 12
	for ; q[at] != 0; at += 1 + int(q[at]) {
		name += string(q[at+1:at+1+int(q[at])]) + "."
	}
	end := at + 5
	kind := binary.BigEndian.Uint16(q[at+1:])
	reply := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
	n := 0
	answer := func(data []byte) {
		n++
		reply = append(reply, 0xc0, 12, byte(kind>>8), byte(kind), 0, 1)
		reply = binary.BigEndian.AppendUint32(reply, ttl)
		reply = append(binary.BigEndian.AppendUint16(reply, uint16(len(data))), data...)
	}
	name = strings.TrimSuffix(name, ".")
	hosts, known := z.hosts[name]
	records, service := z.records[name]
	switch {
	case slices.Contains(hosts, "?"):
		reply[3] |= 2 // SERVFAIL
	case !known && !service:
		reply[3] |= 3 // NXDOMAIN
	}
	for _, s := range records {
		if kind == 33 {
			b := binary.BigEndian.AppendUint16(nil, s.Priority)
			b = binary.BigEndian.AppendUint16(b, s.Weight)
			answer(append(binary.BigEndian.AppendUint16(b, s.Port), wire(s.Target)...))
		}
	}
	for _, h := range hosts {
		if a, err := netip.ParseAddr(h); err == nil && (kind == 1 && a.Is4() || kind == 28 && a.Is6()) {
			answer(a.AsSlice())
		}
	}
	binary.BigEndian.PutUint16(reply[6:], uint16(n))
	return reply
}

// startService starts a service of each of the names, each at an address of its own, where it
// answers with its name, and a route to the name of the service.
func startService(t *testing.T, change func(*upstream.Settings),
	answers ...string) (*zone, *nameService,
	*upstream.Pool, *route, map[string]uint16) {
	names := &nameService{zone: new(zone)}
	startNames(t, names)
	ports := make(map[string]uint16)
	for _, name := range answers {
		s := startAt(t, "127.0.0.1:0", says(name))
		ports[name] = s.listener.Addr().(*net.TCPAddr).AddrPort().Port()
	}
	pool := new(upstream.Pool)
	r := newRoute(t, pool, []string{"_app._tcp.example.test"}, change)
	return names.zone, names, pool, r, ports
}

const theService = "_app._tcp.example.test"

// TestService: the records say where a service is: ports, weights, and by priority what is a
// backup. What they say is followed.
func TestService(t *testing.T) {
	z, _, pool, r, ports := startService(t, nil, "a", "b", "c", "d")
	here := map[string][]string{"one.test": {"127.0.0.1"}}
	record := func(name string, priority, weight uint16) net.SRV {
		return net.SRV{Target: "one.test.", Port: ports[name], Priority: priority, Weight: weight}
	}
	ask := func(want string) {
		t.Helper()
		if got := r.texts(len(want)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	z.set(map[string][]net.SRV{
		theService: {record("b", 10, 20), record("a", 10, 10), record("c", 20, 0)}}, here)
	got := strings.Split(r.texts(6), "")
	slices.Sort(got)
	if strings.Join(got, "") != "aabbbb" {
		t.Error(got)
	}
	rows := r.Report()
	if len(rows) != 1 || rows[0].Address != theService || rows[0].Requests != 6 || rows[0].Backup {
		t.Errorf("%+v", rows)
	}

	// Weights change, and the service has another address.
	z.set(map[string][]net.SRV{theService: {record("a", 0, 1), record("d", 1, 1), record("c", 2, 1)}},
		here)
	pool.LookUp()
	ask("aaa")
	if n := pool.Backends(); n != 3 {
		t.Error(n, " addresses are known")
	}
	if rows := r.Report(); rows[0].Requests != 9 {
		t.Error("what was counted at b is forgotten: ", rows[0].Requests)
	}
	if !r.SetState("127.0.0.1:"+strconv.Itoa(int(ports["a"])), "down") {
		t.Error("a has no name")
	}
	ask("ddd") // the next priority
	r.SetState("127.0.0.1:"+strconv.Itoa(int(ports["d"])), "down")
	ask("cc")
	r.SetState("127.0.0.1:"+strconv.Itoa(int(ports["a"])), "up")
	ask("aa")
}

// TestServiceFails: a service that says it is not there has no address; where a host cannot be
// looked up its addresses stay, and where it is gone they go.
func TestServiceFails(t *testing.T) {
	z, names, pool, r, ports := startService(t, nil, "a", "b")
	both := map[string][]net.SRV{theService: {
		{Target: "one.test.", Port: ports["a"]}, {Target: "two.test.", Port: ports["b"]}}}
	for _, nothing := range []map[string][]net.SRV{nil, {theService: nil},
		{theService: {{Target: ".", Port: 1}}}, both} {
		z.set(nothing, nil)
		if g := r.get("x"); g.err == nil {
			t.Errorf("%v: %q", nothing, g.text)
		}
		pool.ForgetNames()
	}
	ask := func(want string) {
		t.Helper()
		pool.LookUp()
		got := strings.Split(r.texts(4), "")
		slices.Sort(got)
		if strings.Join(got, "") != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	z.set(both, map[string][]string{"one.test": {"127.0.0.1"}, "two.test": {"127.0.0.1"}})
	ask("aabb")
	z.set(both, map[string][]string{"one.test": {"?"}, "two.test": {"127.0.0.1"}})
	ask("aabb")
	z.set(both, map[string][]string{"two.test": {"127.0.0.1"}})
	ask("bbbb")
	names.silent.Store(true)
	ask("bbbb")
}

// TestServiceTime: the least time of all records counts, those of the service, too.
func TestServiceTime(t *testing.T) {
	names := &nameService{zone: new(zone)}
	startNames(t, names)
	names.ttl.Store(7)
	names.zone.set(map[string][]net.SRV{theService: {{Target: "one.test.", Port: 1}}},
		map[string][]string{"one.test": {"127.0.0.1"}})
	if ttl := must.Get(upstream.ServiceTTL(t.Context(), theService))(t); ttl != 7*time.Second {
		t.Error(ttl)
	}
}

// TestLargeService: of 300 hosts 256 are used, as many are looked up at a time as are allowed, and
// requests go on while they change.
func TestLargeService(t *testing.T) {
	z, _, pool, r, ports := startService(t, nil, "a")
	records, hosts := map[string][]net.SRV{}, map[string][]string{}
	for i := range 300 {
		host := fmt.Sprint("h", i, ".test")
		records[theService] = append(records[theService], net.SRV{Target: host + ".", Port: ports["a"]})
		hosts[host] = []string{fmt.Sprintf("127.1.%d.%d", i/200, 1+i%200)}
	}
	hosts["h0.test"] = []string{"127.0.0.1"}
	z.set(records, hosts)
	r.get("x")
	pool.LookUp()
	if n := pool.Backends(); n != 256 {
		t.Error(n, " addresses")
	}
	z.set(map[string][]net.SRV{theService: records[theService][:1]}, hosts)
	pool.LookUp()
	wait.Until(t, "the others are forgotten", func() bool { r.get("x"); return pool.Backends() == 1 })
}

// TestServiceNames: what is a name of a service, and what is wrong with one.
func TestServiceNames(t *testing.T) {
	for address, want := range map[string]string{
		"_http._tcp.example.com":         "",
		"_http._TCP.example.com. backup": "",
		"_http._tcp.example.com:80": "_http._tcp.example.com:80: the records of a service have " +
			"the ports; expected none",
		"_http._tcp.example.com weight=2": "_http._tcp.example.com: the records of the service have " +
			"the weights",
		"_http._udp.example.com": `expected unix:/path or host:port, not "_http._udp.example.com"`,
		"_http._tcp.":            `expected unix:/path or host:port, not "_http._tcp."`,
		"_._tcp.example.com":     `expected unix:/path or host:port, not "_._tcp.example.com"`,
		"_app.example.com:80":    "",
	} {
		_, err := new(upstream.Pool).Group(upstream.Settings{Addresses: []string{address}})
		have := ""
		if err != nil {
			have = err.Error()
		}
		if have != want {
			t.Errorf("%q: have %s, want %s", address, have, want)
		}
	}
}

// TestServiceTLS: a certificate has to name the domain of the service. The records come over the
// network, so the name of a host in them proves nothing (RFC 6125).
func TestServiceTLS(t *testing.T) {
	ca := certs.New(t)
	names := &nameService{zone: new(zone)}
	startNames(t, names)
	asked := make(chan string, 1)
	config := ca.Config("example.test")
	config.VerifyConnection = func(s tls.ConnectionState) error { asked <- s.ServerName; return nil }
	ln := must.Get(tls.Listen("tcp", "127.0.0.1:0", config))(t)
	t.Cleanup(func() { ln.Close() })
	go func() {
		if c, err := ln.Accept(); err == nil {
			_ = c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	names.zone.set(map[string][]net.SRV{
		theService: {{Target: "one.test.", Port: ln.Addr().(*net.TCPAddr).AddrPort().Port()}}},
		map[string][]string{"one.test": {"127.0.0.1"}})
	security := must.Get((&upstream.TLS{CA: ca.File}).Load(filepath.Clean, false))(t)
	r := newRoute(t, new(upstream.Pool), []string{"https://" + theService},
		func(s *upstream.Settings) { s.TLS = security })
	r.get("x") // what is said over TLS does not matter
	if name := soon(t, "a handshake", asked); name != "example.test" {
		t.Error(name)
	}
}
