package fair_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/fair"
)

type entry = fair.Entry[string]

// add puts entries into q, each of which is "address name".
func add(q *fair.Queue[string], entries ...string) (all []*entry) {
	for _, text := range entries {
		address, name, _ := strings.Cut(text, " ")
		e := &entry{Value: name}
		q.Add(netip.MustParseAddr(address), e)
		all = append(all, e)
	}
	return all
}

// drain takes all out, in turn.
func drain(q *fair.Queue[string]) string {
	var names []string
	for e := q.Next(); e != nil; e = q.Next() {
		names = append(names, e.Value)
		q.Take(e)
	}
	return strings.Join(names, " ")
}

func TestTurns(t *testing.T) {
	for _, test := range []struct{ name, entries, want string }{
		{"one client: first come, first served",
			"192.0.2.1 a,192.0.2.1 b,192.0.2.1 c", "a b c"},
		{"a crowd of one address, and others",
			"192.0.2.1 a,192.0.2.1 b,192.0.2.1 c,192.0.2.2 d,192.0.2.3 e", "a d e b c"},
		{"the networks of one /48 have one turn together",
			"2001:db8:0:1::1 a,2001:db8:0:2::1 b,2001:db8:0:3::1 c,2001:db8:1::1 d,2001:db8:1::1 e",
			"a d b e c"},
		{"within a site its networks take turns",
			"2001:db8:0:1::1 a,2001:db8:0:1::2 b,2001:db8:0:1::3 c,2001:db8:0:2::1 d", "a d b c"},
		{"mapped to IPv6: one client", "192.0.2.1 a,::ffff:192.0.2.1 b,192.0.2.2 c", "a c b"},
	} {
		var q fair.Queue[string]
		add(&q, strings.Split(test.entries, ",")...)
		if got := drain(&q); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		if q.Len() != 0 {
			t.Errorf("%s: %d are left", test.name, q.Len())
		}
	}
}

func TestUnixClientsAreOne(t *testing.T) {
	var q fair.Queue[string]
	for _, name := range []string{"a", "b"} {
		q.Add(netip.Addr{}, &entry{Value: name})
	}
	add(&q, "192.0.2.1 c")
	if got := drain(&q); got != "a c b" {
		t.Error(got)
	}
}

// TestInTurn leaves entries that cannot be served: they keep their turn, and the others of their
// site are seen before the next site is.
func TestInTurn(t *testing.T) {
	var q fair.Queue[string]
	add(&q, "192.0.2.1 x1", "192.0.2.1 a", "192.0.2.1 b", "192.0.2.2 x2", "192.0.2.3 c", "192.0.2.3 d")
	var seen []string
	for e := range q.InTurn(nil) {
		if strings.HasPrefix(e.Value, "x") {
			continue
		}
		seen = append(seen, e.Value)
		q.Take(e)
		if len(seen) == 3 {
			break
		}
	}
	if got := strings.Join(seen, " "); got != "a c b" {
		t.Errorf("served %s", got)
	}
	if got := drain(&q); got != "x2 d x1" {
		t.Errorf("then %s", got)
	}
}

func TestRemove(t *testing.T) {
	var q fair.Queue[string]
	all := add(&q, "192.0.2.1 a", "192.0.2.1 b", "192.0.2.2 c", "192.0.2.3 d")
	for _, e := range []*entry{all[0], all[2], all[2]} {
		q.Remove(e)
		if e.Waits() {
			t.Error("a removed entry waits")
		}
	}
	if got := drain(&q); got != "b d" {
		t.Error(got)
	}
}

func TestSurplus(t *testing.T) {
	for _, test := range []struct{ name, entries, client, want string }{
		{"a newcomer instead of the newest of the crowd",
			"192.0.2.1 a,192.0.2.1 b,192.0.2.2 c", "192.0.2.3", "b"},
		{"one more of the crowd", "192.0.2.1 a,192.0.2.1 b,192.0.2.2 c", "192.0.2.1", ""},
		{"it would only change sides", "192.0.2.1 a,192.0.2.1 b,192.0.2.2 c", "192.0.2.2", ""},
		{"less than the crowd has", "192.0.2.1 a,192.0.2.1 b,192.0.2.1 c,192.0.2.2 d", "192.0.2.2", "c"},
		{"a /48 of many networks is one site",
			"2001:db8:0:1::1 a,2001:db8:0:2::1 b,2001:db8:0:3::1 c,192.0.2.2 d", "192.0.2.2", "a b c"},
		{"within a site the crowd of a network",
			"2001:db8:0:1::1 a,2001:db8:0:1::2 b,192.0.2.2 c", "2001:db8:0:2::1", "b"},
	} {
		var q fair.Queue[string]
		add(&q, strings.Split(test.entries, ",")...)
		got := ""
		if e := q.Surplus(netip.MustParseAddr(test.client)); e != nil {
			got = e.Value
		}
		if got != test.want && (got == "" || !strings.Contains(test.want, got)) {
			t.Errorf("%s: %q gives way, want %q", test.name, got, test.want)
		}
	}
}

// TestSurplusConverges fills a queue of 100 with a crowd: each of 49 others then has its entries in,
// whenever they come, and the crowd keeps what they leave.
func TestSurplusConverges(t *testing.T) {
	const most = 100
	var q fair.Queue[string]
	enter := func(client, name string) bool {
		a := netip.MustParseAddr(client)
		if q.Len() == most {
			e := q.Surplus(a)
			if e == nil {
				return false
			}
			q.Remove(e)
		}
		q.Add(a, &entry{Value: name})
		return true
	}
	for range 2 * most {
		enter("192.0.2.1", "crowd")
	}
	for i := range 49 {
		for range 2 {
			if !enter(fmt.Sprintf("198.51.100.%d", i), "other") {
				t.Fatalf("client %d was refused", i)
			}
			enter("192.0.2.1", "crowd")
		}
	}
	if others := strings.Count(drain(&q), "other"); others != 98 {
		t.Errorf("%d of 98 are left", others)
	}
}

// TestModel compares a queue with a plain list of all entries: none is lost or served twice, and no
// site has more than one turn more than another one that has waited all the time.
func TestModel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var q fair.Queue[string]
		waiting := map[*entry]netip.Addr{}
		for i := range 300 {
			switch r.IntN(3) {
			case 0, 1:
				a := netip.AddrFrom16([16]byte{0x20, 1, 5: byte(r.IntN(3)), 7: byte(r.IntN(3))})
				e := &entry{Value: fmt.Sprint(i)}
				q.Add(a, e)
				waiting[e] = a
			case 2:
				e := q.Next()
				if e == nil {
					break
				}
				if r.IntN(2) == 0 {
					q.Take(e)
				} else {
					q.Remove(e)
				}
				if _, ok := waiting[e]; !ok {
					t.Fatal("an entry was served twice")
				}
				delete(waiting, e)
			}
			if q.Len() != len(waiting) {
				t.Fatalf("%d wait, want %d", q.Len(), len(waiting))
			}
		}
		turns := map[byte]int{} // by site, of those that still wait
		for e := q.Next(); e != nil; e = q.Next() {
			q.Take(e)
			site := waiting[e].As16()[5]
			delete(waiting, e)
			turns[site]++
			for other, n := range turns {
				if n < turns[site]-1 && has(waiting, other) {
					t.Fatalf("site %d had %d turns, and site %d, which waits, %d", site, turns[site], other, n)
				}
			}
		}
		if len(waiting) != 0 {
			t.Fatalf("%d are lost", len(waiting))
		}
	}
}

func has(waiting map[*entry]netip.Addr, site byte) bool {
	for _, a := range waiting {
		if a.As16()[5] == site {
			return true
		}
	}
	return false
}

// BenchmarkSurplus has a full queue of one crowd and a thousand single clients.
func BenchmarkSurplus(b *testing.B) {
	for _, bench := range []struct{ name, client string }{
		{"crowd", "192.0.2.1"}, {"newcomer", "192.0.2.2"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var q fair.Queue[string]
			for range 3000 {
				add(&q, "192.0.2.1 crowd")
			}
			for i := range 1000 {
				add(&q, fmt.Sprintf("10.0.%d.%d single", i/250, i%250))
			}
			client := netip.MustParseAddr(bench.client)
			b.ReportAllocs()
			for b.Loop() {
				q.Surplus(client)
			}
		})
	}
}
