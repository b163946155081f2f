package fair_test

import (
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/lwango/lwango/internal/base/fair"
)

func TestSlots(t *testing.T) {
	p := fair.NewSlots(func() int { return 1 })
	var begun []string
	enter := func(client, name string, behind bool) *fair.Slot {
		return p.Enter(netip.MustParseAddr(client), behind, func() { begun = append(begun, name) })
	}
	first := enter("192.0.2.1", "first", false)
	enter("192.0.2.9", "behind", true)
	second := enter("192.0.2.1", "second", false)
	enter("192.0.2.1", "third", false)
	enter("192.0.2.2", "other", false)
	if taken, waiting := p.Stats(); taken != 1 || waiting != 4 {
		t.Errorf("%d are taken, %d wait", taken, waiting)
	}
	if !p.Withdraw(second) || p.Withdraw(second) || p.Withdraw(first) {
		t.Error("Withdraw is not for those that wait")
	}
	for range 4 {
		p.Leave()
	}
	if got := strings.Join(begun, " "); got != "first third other behind" {
		t.Error(got)
	}
	if taken, waiting := p.Stats(); taken != 0 || waiting != 0 {
		t.Errorf("at the end %d are taken, %d wait", taken, waiting)
	}
}

// TestSlotsOfManyGoroutines gives slots back from wherever they are used.
func TestSlotsOfManyGoroutines(t *testing.T) {
	const most, clients, each = 3, 20, 50
	p := fair.NewSlots(func() int { return most })
	var mu sync.Mutex
	var at, highest, done int
	var all sync.WaitGroup
	for i := range clients {
		client := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		for k := range each {
			all.Go(func() {
				begun := make(chan struct{})
				p.Enter(client, k%5 == 0, func() { close(begun) })
				<-begun
				mu.Lock()
				at++
				highest = max(highest, at)
				mu.Unlock()
				mu.Lock()
				at--
				done++
				mu.Unlock()
				p.Leave()
			})
		}
	}
	all.Wait()
	if highest > most || done != clients*each {
		t.Errorf("%d at a time, %d in all", highest, done)
	}
	if taken, waiting := p.Stats(); taken != 0 || waiting != 0 {
		t.Errorf("at the end %d are taken, %d wait", taken, waiting)
	}
}

// TestProcessors: work that computes leaves half of the loops their processors, however many CPUs
// there are: the process may not have all of them.
func TestProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for loops, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 9: 4} {
		runtime.GOMAXPROCS(loops + 1)
		if n := fair.Processors(); n != want {
			t.Errorf("%d loops: %d, want %d", loops, n, want)
		}
	}
}
