package engine

// maxRecent is how many keys are remembered, at least, and half of how many at most.
const maxRecent = 1 << 13

// Recent has the number of the last message of each key that has had one lately. Its zero value has
// none. One goroutine uses it.
type Recent struct{ now, before map[string]uint64 }

// Fresh reports whether the number is above the key's last one, and notes it.
func (r *Recent) Fresh(key string, number uint64) bool {
	if number <= max(r.now[key], r.before[key]) {
		return false
	}
	if r.now == nil || len(r.now) == maxRecent {
		r.now, r.before = make(map[string]uint64), r.now
	}
	r.now[key] = number
	return true
}

// Forget forgets a key.
func (r *Recent) Forget(key string) {
	delete(r.now, key)
	delete(r.before, key)
}
