package server

import "testing"

func TestConnectionsFor(t *testing.T) {
	own := ownDescriptors(2, 2)
	for descriptors, want := range map[int]int{4: 1, 20: 2, 128: 26, 1024: 324, 20000: 6650, 1 << 20: 349508} {
		got := connectionsFor(descriptors, own)
		if got != want {
			t.Errorf("connectionsFor(%d, %d) = %d, want %d", descriptors, own, got, want)
		}
		if descriptors > 100 && got*perConnection+own > descriptors {
			t.Errorf("%d connections may need more than %d descriptors", got, descriptors)
		}
	}
}
