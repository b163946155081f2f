package engine

import "math"

// maxRecent is the least number of keys that are remembered; the largest is twice that. A topic is
// read again from its whole stream at most, which may have as many origins as messages.
const maxRecent = 1<<13 + 1<<10

// Recent remembers the last message of each key, for the keys that were used last. The zero Recent
// remembers none. One goroutine uses it.
type Recent struct{ current, previous map[string]lastMessage }

type lastMessage struct{ number, count uint64 }

// Fresh reports whether the number is above the key's last number, and remembers it. Numbers of an
// origin rise, so a number that does not belongs to a message that was sent, or read, twice.
//
// count is Message.Count. lost is how many messages between the last one with a Count and this one
// have not come.
func (r *Recent) Fresh(key string, number, count uint64) (fresh bool, lost int) {
	had, ok := r.current[key]
	if !ok {
		had = r.previous[key]
	}
	if number <= had.number {
		return false, 0
	}
	if r.current == nil || len(r.current) == maxRecent {
		r.current, r.previous = make(map[string]lastMessage), r.current
	}
	if count == 0 {
		count = had.count
	} else if had.count > 0 && count > had.count+1 {
		lost = int(min(count-had.count-1, math.MaxInt32))
	}
	r.current[key] = lastMessage{number, count}
	return true, lost
}

// Forget forgets a key.
func (r *Recent) Forget(key string) {
	delete(r.current, key)
	delete(r.previous, key)
}
