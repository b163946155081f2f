package cache

import "sync/atomic"

// uses counts requests by key, for min_uses. It has a count for each of its places, and a key takes
// the place of another one, which then begins anew: so it takes no more memory, however many keys
// there are, and what is asked for rarely may never reach its number. Any loop may call its method.
type uses struct {
	least  uint32
	places [1 << 14]atomic.Uint32 // 24 bits of a hash, and a count in 8
}

// maxUses is the largest least.
const maxUses = 255

// enough counts a request for the key with this hash, and reports whether there were enough.
func (u *uses) enough(hash uint64) bool {
	at := &u.places[hash%uint64(len(u.places))]
	key := uint32(hash>>40) << 8
	for {
		was := at.Load()
		n := uint32(1)
		if was&^maxUses == key {
			n = min(was&maxUses+1, u.least)
		}
		if was == key|n || at.CompareAndSwap(was, key|n) {
			return n >= u.least
		}
	}
}
