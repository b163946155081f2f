package openfiles_test

import (
	"net/netip"
	"testing"

	"github.com/lwango/lwango/internal/base/openfiles"
	"github.com/lwango/lwango/internal/base/sysio"
)

func addr(text string) netip.Addr {
	a, _ := netip.ParseAddr(text) // "": none
	return a
}

// takeAll takes descriptors for a client until there are no more for it.
func takeAll(b *openfiles.Budget, client string) (n int) {
	for b.Take(addr(client), 1) {
		n++
	}
	return n
}

// TestTake: each client gets as much as is then free, whoever came before, and an eighth stays
// free.
func TestTake(t *testing.T) {
	b := openfiles.New(1600)
	b.Reserve(150)
	b.Connected(50) // 1600 - 2*200 - 150 - 50 = 1000
	for _, c := range []struct {
		client string
		want   int
	}{{"192.0.2.1", 500}, {"::ffff:192.0.2.1", 0}, {"192.0.2.2", 250}, {"2001:db8:1:1::1", 125},
		{"2001:db8:1:1::2", 0}} {
		if got := takeAll(b, c.client); got != c.want {
			t.Errorf("%s: %d, want %d", c.client, got, c.want)
		}
	}
	// Each /64 of a /48 may hold as much as is free, together three times as much.
	of48 := 125
	for _, client := range []string{"2001:db8:1:2::1", "2001:db8:1:3::1", "2001:db8:1:4::1",
		"2001:db8:1:5::1", "2001:db8:1:6::1", "2001:db8:1:7::1"} {
		of48 += takeAll(b, client)
	}
	if free := 1000 - b.Taken(); of48 > 3*free+3 || free == 0 {
		t.Errorf("a /48 has %d, free are %d", of48, free)
	}
	if takeAll(b, ""); b.Taken() != 1000 {
		t.Errorf("trusted proxies leave %d of 1000", 1000-b.Taken())
	}
	if b.Take(addr("192.0.2.9"), 1) {
		t.Error("one is taken where none is free")
	}
	b.Give(addr("192.0.2.1"), 500)
	if got := takeAll(b, "192.0.2.9"); got != 250 || b.Taken() != 750 {
		t.Errorf("after 500 were given back, a client gets %d, all have %d", got, b.Taken())
	}
}

// TestKeep: what is kept at hand is an eighth at most.
func TestKeep(t *testing.T) {
	b := openfiles.New(80)
	for _, n := range []int{2, 7, 1} {
		if !b.Keep(n) {
			t.Errorf("%d are kept, and no more can be", b.Kept())
		}
	}
	if b.Keep(1) || b.Kept() != 10 {
		t.Errorf("%d of 80 are kept", b.Kept())
	}
	b.Drop(2)
	if b.Keep(3) || !b.Keep(2) {
		t.Errorf("two were given back; %d are kept", b.Kept())
	}
	if got := [2]int{b.Share(7), b.Share(1000)}; got != [2]int{7, 10} {
		t.Errorf("shares: %v", got)
	}
}

// TestLast: only with few left the numbers are high.
func TestLast(t *testing.T) {
	b := openfiles.New(80)
	if b.Last(69) || !b.Last(70) || openfiles.Process.Limit() != sysio.DescriptorLimit() {
		t.Error(b.Last(69), b.Last(70), openfiles.Process.Limit())
	}
}
