package fair_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/base/fair"
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
		{"within a client network the networks take turns",
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

// several is queues whose turns are compared, each for entries of its own kind.
type several struct {
	turn   uint64
	queues []*fair.Queue[string]
}

func newSeveral(n int) *several {
	s := new(several)
	for range n {
		s.queues = append(s.queues, &fair.Queue[string]{Clock: &s.turn})
	}
	return s
}

// add puts entries into a queue, each of which is "address name".
func (s *several) add(i int, entries ...string) {
	for _, e := range entries {
		client, _, _ := strings.Cut(e, " ")
		s.turn++
		s.queues[i].Add(netip.MustParseAddr(client), &entry{Value: e})
	}
}

// serve serves up to n entries of the queues from the one with that number on, and returns their
// names.
func (s *several) serve(from, n int) string {
	var names []string
	for len(names) < n {
		var first *fair.Queue[string]
		for _, q := range s.queues[from:] {
			if q.Len() > 0 && (first == nil || q.Before(first)) {
				first = q
			}
		}
		if first == nil {
			break
		}
		e := first.Next()
		address, name, _ := strings.Cut(e.Value, " ")
		s.turn++
		for _, q := range s.queues {
			q.Served(netip.MustParseAddr(address))
		}
		first.Remove(e)
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// TestTurnsOfSeveral: entries that cannot be served keep their turn in their own queue, and in the
// others it is as if all of a client were in one.
func TestTurnsOfSeveral(t *testing.T) {
	const a, b, c = "192.0.2.1 ", "192.0.2.2 ", "192.0.2.3 "
	s := newSeveral(2)
	s.add(0, a+"x1", a+"x2", b+"x3")
	s.add(1, a+"1", a+"2", b+"3", c+"4")
	if got := s.serve(1, 3); got != "1 3 4" {
		t.Errorf("of the second queue: %s", got)
	}
	if got := s.serve(0, 9); got != "x1 x3 x2 2" {
		t.Errorf("of both: %s", got)
	}

	s = newSeveral(2) // the networks of a client network
	s.add(0, "2001:db8:0:1::1 1", "2001:db8:0:1::2 2", "2001:db8:0:1::3 3")
	s.add(1, "2001:db8:0:2::1 4", "2001:db8:0:2::1 5")
	if got := s.serve(0, 9); got != "1 4 2 5 3" {
		t.Errorf("networks: %s", got)
	}

	s = newSeveral(2) // a client network moves with all it has, and keeps its turn
	s.add(0, a+"1", a+"2", b+"3")
	s.add(1, c+"4")
	s.queues[0].Move(netip.MustParseAddr("192.0.2.1"), s.queues[1])
	s.queues[0].Move(netip.MustParseAddr("192.0.2.9"), s.queues[1])
	if x, y := s.queues[0].Len(), s.queues[1].Len(); x != 1 || y != 3 {
		t.Errorf("%d and %d wait", x, y)
	}
	if got := s.serve(0, 9); got != "1 3 4 2" {
		t.Errorf("after a move: %s", got)
	}
}

// TestFirsts: of each network the one that has waited for longest, of the client networks that are
// asked for.
func TestFirsts(t *testing.T) {
	var q fair.Queue[string]
	add(&q, "192.0.2.1 a", "192.0.2.1 b", "192.0.2.2 c", "2001:db8:0:1::1 d", "2001:db8:0:2::1 e")
	var seen []string
	for e := range q.Firsts(func(clientNet netip.Addr) bool {
		return clientNet.String() != "192.0.2.2"
	}) {
		seen = append(seen, e.Value)
	}
	if got := strings.Join(seen, " "); got != "a d e" {
		t.Error(got)
	}
	seen = nil
	for e := range q.All() {
		seen = append(seen, e.Value)
	}
	if got := strings.Join(seen, " "); got != "a b c d e" {
		t.Error(got)
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
		{"a /48 of many networks is one client network",
			"2001:db8:0:1::1 a,2001:db8:0:2::1 b,2001:db8:0:3::1 c,192.0.2.2 d", "192.0.2.2", "a b c"},
		{"within a client network the crowd of a network",
			"2001:db8:0:1::1 a,2001:db8:0:1::2 b,192.0.2.2 c", "2001:db8:0:2::1", "b"},
	} {
		var q fair.Queue[string]
		add(&q, strings.Split(test.entries, ",")...)
		got := ""
		if e := q.Evictable(netip.MustParseAddr(test.client)); e != nil {
			got = e.Value
		}
		if got != test.want && (got == "" || !strings.Contains(test.want, got)) {
			t.Errorf("%s: %q gives way, want %q", test.name, got, test.want)
		}
	}
}

// TestSurplusConverges fills a queue of 100 with a crowd: each of 49 others then has its entries
// in, whenever they come, and the crowd keeps what they leave.
func TestSurplusConverges(t *testing.T) {
	const most = 100
	var q fair.Queue[string]
	enter := func(client, name string) bool {
		a := netip.MustParseAddr(client)
		if q.Len() == most {
			e := q.Evictable(a)
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
// client network has more than one turn more than another one that has waited all the time.
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
		turns := map[byte]int{} // by client network, of those that still wait
		for e := q.Next(); e != nil; e = q.Next() {
			q.Take(e)
			clientNet := waiting[e].As16()[5]
			delete(waiting, e)
			turns[clientNet]++
			for other, n := range turns {
				if n < turns[clientNet]-1 && has(waiting, other) {
					t.Fatalf("client network %d had %d turns, and %d, which waits, %d", clientNet,
						turns[clientNet], other, n)
				}
			}
		}
		if len(waiting) != 0 {
			t.Fatalf("%d are lost", len(waiting))
		}
	}
}

func has(waiting map[*entry]netip.Addr, clientNet byte) bool {
	for _, a := range waiting {
		if a.As16()[5] == clientNet {
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
				q.Evictable(client)
			}
		})
	}
}
