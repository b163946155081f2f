package engine

import "math"

// maxRecent is how many keys are remembered, at least, and half of how many at most. A topic is
// read again from at most the whole of its stream, which may have as many origins as messages.
const maxRecent = 1<<13 + 1<<10

// Recent has the last message of each key that has had one lately. Its zero value has none. One
// goroutine uses it.
type Recent struct{ now, before map[string]last }

type last struct{ number, count uint64 }

// Fresh reports whether the number is above the key's last one, and notes it. Numbers of an origin
// rise, so one that does not is of a message that was sent, or read, twice.
//
// count is Message.Count. lost is how many between the last one that has a count and this one have
// not come.
func (r *Recent) Fresh(key string, number, count uint64) (fresh bool, lost int) {
	had, ok := r.now[key]
	if !ok {
		had = r.before[key]
	}
	if number <= had.number {
		return false, 0
	}
	if r.now == nil || len(r.now) == maxRecent {
		r.now, r.before = make(map[string]last), r.now
	}
	if count == 0 {
		count = had.count
	} else if had.count > 0 && count > had.count+1 {
		lost = int(min(count-had.count-1, math.MaxInt32))
	}
	r.now[key] = last{number, count}
	return true, lost
}

// Forget forgets a key.
func (r *Recent) Forget(key string) {
	delete(r.now, key)
	delete(r.before, key)
}
