package upstream_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
)

// named starts a service at each of the addresses, on one port, all of which a name leads to,
// and a route to that name that keeps connections. Each service answers with its address.
func named(t *testing.T, addresses ...string) (*nameService, *upstream.Pool, *route, []*service) {
	names := new(nameService)
	names.resolveTo(addresses...)
	startNames(t, names)
	port := sharedPort(t, addresses[0], addresses[1])
	var all []*service
	for _, a := range addresses {
		all = append(all, startAt(t, a+":"+port, says(a)))
	}
	pool := new(upstream.Pool)
	r := newRoute(t, pool, []string{"app.test:" + port}, func(s *upstream.Settings) {
		s.MaxIdle, s.IdleTimeout, s.Newest = 8, wait.Patience, true
	})
	return names, pool, r, all
}

// TestAllAddressesOfAName: each address of a name is an upstream. One that is gone gets no request,
// and no connection to it stays; one that is new gets its turns.
func TestAllAddressesOfAName(t *testing.T) {
	names, pool, r, all := named(t, "127.0.0.1", "127.0.0.2")
	const both = "127.0.0.1127.0.0.2127.0.0.1127.0.0.2"
	if got := r.texts(4); got != both {
		t.Error(got)
	}
	if n := pool.Idle(); n != 2 {
		t.Error(n, " connections are idle")
	}
	if rows := r.Report(); len(rows) != 1 || rows[0].Idle != 2 || !rows[0].Up {
		t.Errorf("%+v", rows)
	}

	names.resolveTo("127.0.0.2")
	pool.LookUp()
	if got := r.texts(3); got != "127.0.0.2127.0.0.2127.0.0.2" {
		t.Error("one has left: ", got)
	}
	all[0].closed(t)
	if n := pool.Backends(); n != 1 {
		t.Error(n, " addresses are known")
	}

	names.resolveTo("127.0.0.2", "127.0.0.1")
	pool.LookUp()
	if got := r.texts(4); got != both {
		t.Error("it is back: ", got)
	}

	names.resolveTo("127.0.0.2")
	all[1].stop() // the name has moved, but not all of it
	pool.LookUp()
	if g := r.get("x"); g.err == nil {
		t.Error(g)
	}
	if rows := r.Report(); rows[0].Up {
		t.Errorf("%+v", rows)
	}
	names.resolveTo("127.0.0.1")
	pool.ForgetNames()
	if got := r.texts(1); got != "127.0.0.1" { // asked at once
		t.Error(got)
	}
	all[0].stop()
}

// TestNameMovesInUse: a connection in use while its name moves ends with the request, and a request
// that waits for a slot at the old address gets one at the new one.
func TestNameMovesInUse(t *testing.T) {
	names := new(nameService)
	names.resolveTo("127.0.0.1")
	startNames(t, names)
	port := sharedPort(t, "127.0.0.1", "127.0.0.2")
	goOn := make(chan bool)
	old := startAt(t, "127.0.0.1:"+port, func(int, string) string { <-goOn; return "old" })
	moved := startAt(t, "127.0.0.2:"+port, says("new"))
	pool := new(upstream.Pool)
	r := newRoute(t, pool, []string{"app.test:" + port}, func(s *upstream.Settings) {
		s.MaxConns, s.MaxIdle, s.IdleTimeout = 1, 1, wait.Patience
	})
	first, waits := make(chan got, 1), make(chan got, 1)
	r.ask("0", false, first)
	old.requests(t, 1)
	r.ask("1", false, waits)
	wait.Until(t, "one waits", func() bool { return pool.Waiting() == 1 })
	names.resolveTo("127.0.0.2")
	pool.LookUp()
	if g := r.get("2"); g.text != "new" {
		t.Error(g)
	}
	if g := <-waits; g.text != "new" {
		t.Error("the one that has waited: ", g)
	}
	goOn <- true
	if g := <-first; g.text != "old" {
		t.Error(g)
	}
	old.closed(t)
	if n := pool.Backends(); n != 1 {
		t.Error(n, " addresses are known")
	}
	moved.stop()
}

// TestSomeAddressesNeverWork: of a name's addresses, one at which nobody has ever listened is named
// in the log once, and costs no request.
func TestSomeAddressesNeverWork(t *testing.T) {
	defer upstream.AvoidFor(0)()
	_, _, r, all := named(t, "127.0.0.1", "127.0.0.2")
	all[1].stop()
	if got := r.texts(6); got != strings.Repeat("127.0.0.1", 6) {
		t.Error(got)
	}
	want := r.Report()[0].Address + " (" + all[1].address + ")"
	if got := r.missed(); !slices.Equal(got, []string{want}) {
		t.Errorf("%q, want %q once", got, want)
	}
	all[0].stop()
}

// TestWatchedName: the checks ask each address of a name, and those that it gets later.
func TestWatchedName(t *testing.T) {
	names := new(nameService)
	names.ttl.Store(1)
	names.resolveTo("127.0.0.1")
	startNames(t, names)
	port := sharedPort(t, "127.0.0.1", "127.0.0.2")
	asked := make(chan string, 1)
	for _, a := range []string{"127.0.0.1", "127.0.0.2"} {
		startAt(t, a+":"+port, says(a))
	}
	g := must.Get(new(upstream.Pool).Group(upstream.Settings{Addresses: []string{"app.test:" + port},
		Check: &upstream.Check{Interval: time.Millisecond, Timeout: wait.Patience, Rises: 1, Falls: 1,
			Run: func(c net.Conn, name string) error {
				select {
				case asked <- c.RemoteAddr().String():
				default:
				}
				return nil
			},
			Changed: func(string, bool, error) {}}}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan bool)
	go func() { g.Watch(ctx); close(ended) }()
	for _, a := range []string{"127.0.0.1", "127.0.0.2"} {
		names.resolveTo(a)
		wait.Until(t, a+" is asked", func() bool { return <-asked == a+":"+port })
	}
	cancel()
	<-ended
}

// TestTimeOfANamesAddresses: what the name service says of it counts, over datagrams, too, within
// bounds; and /etc/hosts says nothing.
func TestTimeOfANamesAddresses(t *testing.T) {
	names := new(nameService)
	names.resolveTo("127.0.0.1")
	startNames(t, names)
	streams := net.DefaultResolver
	pc := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	served := make(chan bool)
	go func() {
		defer close(served)
		for q := make([]byte, 512); ; {
			n, from, err := pc.ReadFrom(q)
			if err != nil {
				return
			}
			_, _ = pc.WriteTo(names.reply(q[:n]), from)
		}
	}()
	defer func() { pc.Close(); <-served }()
	datagrams := &net.Resolver{PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
		}}
	for _, tt := range []struct {
		answered uint32
		want     time.Duration
	}{{60, time.Minute}, {0, time.Second}, {1 << 30, time.Hour}, {1 << 31, time.Second}} {
		names.ttl.Store(tt.answered)
		for how, r := range map[string]*net.Resolver{"stream": streams, "datagrams": datagrams} {
			net.DefaultResolver = r // startNames sets it back
			all, ttl, err := upstream.Resolve(t.Context(), "app.test")
			if err != nil || ttl != tt.want || len(all) != 1 {
				t.Errorf("%s, %d: %v %v %v, want %v", how, tt.answered, all, ttl, err, tt.want)
			}
		}
	}
	if _, ttl, err := upstream.Resolve(t.Context(), "localhost"); err != nil || ttl != 5*time.Second {
		t.Error("localhost: ", ttl, err)
	}
}

// TestNameLeavesThoseThatWait: a request that waits for the only address that it has not tried is
// told when the name leads there no more.
func TestNameLeavesThoseThatWait(t *testing.T) {
	defer upstream.AvoidFor(0)() // else it would not try the first one
	names := new(nameService)
	names.resolveTo("127.0.0.1", "127.0.0.2")
	startNames(t, names)
	port := sharedPort(t, "127.0.0.1", "127.0.0.2")
	goOn := make(chan bool)
	busy := startAt(t, "127.0.0.2:"+port, func(int, string) string { <-goOn; return "hello" })
	pool := new(upstream.Pool)
	r := newRoute(t, pool, []string{"app.test:" + port}, func(s *upstream.Settings) { s.MaxConns = 1 })
	done := make(chan got, 2)
	r.ask("0", false, done) // after the first address, at which nobody listens
	busy.requests(t, 1)
	r.ask("1", false, done)
	wait.Until(t, "it waits", func() bool { return pool.Waiting() > 0 })
	names.resolveTo("127.0.0.1")
	pool.LookUp()
	if g := r.get("2"); g.err == nil {
		t.Error(g)
	}
	if g := <-done; g.err == nil {
		t.Error(g)
	}
	goOn <- true
	answered(t, done)
}
