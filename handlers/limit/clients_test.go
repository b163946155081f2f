package limit_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/limit"
)

// v6 returns an address of the given /48 and /64.
func v6(site, network uint32) netip.Addr {
	a := [16]byte{0: 0x20, 15: 1}
	binary.BigEndian.PutUint32(a[2:], site)
	binary.BigEndian.PutUint16(a[6:], uint16(network))
	return netip.AddrFrom16(a)
}

func v4(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

// TestFullTables: one /48 with all its /64s, and one address with a million keys, do all that they
// may, and after them 300 clients of each kind that nobody has seen are served, with their whole
// burst.
func TestFullTables(t *testing.T) {
	const burst = 10
	attacker := netip.MustParseAddr("192.0.2.1")
	random := rand.New(rand.NewPCG(1, 2))
	c := limit.NewClients("10/h", burst)
	now := time.Duration(0)
	passed := 0
	for i := range 1_000_000 {
		now += 10 * time.Microsecond
		for range 2 {
			if c.Take(v6(1, uint32(i)), now) == 0 {
				passed++
			}
			if c.TakeKey(random.Uint64(), attacker, now) == 0 {
				passed++
			}
		}
	}
	if most := 2 * burst * (64 + 1024 + 2); passed > most {
		t.Errorf("%d of the attackers' requests have passed, want %d at most", passed, most)
	}
	for i := range uint32(300) {
		key := random.Uint64()
		for range burst {
			if c.Take(v4(i), now) != 0 || c.Take(v6(2+i, i), now) != 0 || c.TakeKey(key, v4(i), now) != 0 {
				t.Fatalf("client %d is refused", i)
			}
		}
		if c.Take(v4(i), now) == 0 || c.Take(v6(2+i, i), now) == 0 || c.TakeKey(key, v4(i), now) == 0 {
			t.Fatalf("client %d has more than its burst", i)
		}
	}
}

// TestManyOfOneSource: the networks of a site, and the keys of an address, have their own counts up
// to a number, and those beyond it share one.
func TestManyOfOneSource(t *testing.T) {
	c := limit.NewClients("10/h", 2)
	served := func(n int, take func(i int) time.Duration) (count int) {
		for i := range n {
			if take(i) == 0 {
				count++
			}
		}
		return count
	}
	site := func(i int) time.Duration { return c.Take(v6(7, uint32(i)), 0) }
	if first, again := served(100, site), served(100, site); first != 64+2 || again != 64 {
		t.Errorf("networks: %d, then %d", first, again)
	}
	keys := func(i int) time.Duration { return c.TakeKey(uint64(i)*0x9e3779b97f4a7c15, v4(1), 0) }
	if first, again := served(2000, keys), served(2000, keys); first != 1024+2 || again != 1024 {
		t.Errorf("keys: %d, then %d", first, again)
	}
	ofSite := func(i int) time.Duration {
		return c.TakeKey(uint64(i)*0x9e3779b97f4a7c15+1, v6(7, uint32(i)), 0)
	}
	if first := served(2000, ofSite); first != 1024+2 {
		t.Errorf("keys from the /64s of a /48: %d", first)
	}
	if c.TakeKey(1, v4(2), 0) != 0 { // of another address
		t.Error("another address is refused")
	}
}
