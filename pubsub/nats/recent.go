package nats

// maxRecent is how many keys are remembered, at least, and half of how many at most.
const maxRecent = 1 << 13

// recent has the number of the last message of each key that has had one lately. Its zero value has
// none.
type recent struct{ now, before map[string]uint64 }

// fresh reports whether the number is above the key's last one, and notes it.
func (r *recent) fresh(key string, number uint64) bool {
	if number <= max(r.now[key], r.before[key]) {
		return false
	}
	if r.now == nil || len(r.now) == maxRecent {
		r.now, r.before = make(map[string]uint64), r.now
	}
	r.now[key] = number
	return true
}

// forget forgets a key.
func (r *recent) forget(key string) {
	delete(r.now, key)
	delete(r.before, key)
}
