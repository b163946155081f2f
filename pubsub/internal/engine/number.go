package engine

import (
	"strconv"
	"strings"
)

// maxID is the length of the longest ID: two numbers of 64 bits in base 36, and a dash.
const maxID = 13 + 1 + 13

// ParseID splits the ID of a message. Any client of the broker may have written it.
func ParseID(id string) (origin string, number uint64, ok bool) {
	origin, text, ok := strings.Cut(id, "-")
	number, err := strconv.ParseUint(text, 36, 64)
	return origin, number, ok && err == nil && origin != "" && len(id) <= maxID
}

// maxOrigins is how many origins are remembered for a topic.
const maxOrigins = 1024

// Seen is the number of the last message of each origin. One goroutine uses it.
type Seen map[string]uint64

// Fresh reports whether a message was not read before, and notes that it is now. Numbers of an
// origin rise, so one that does not is of a message that was sent twice.
func (s Seen) Fresh(origin string, number uint64) bool {
	if number <= s[origin] {
		return false
	}
	if len(s) == maxOrigins { // each start of a process makes one
		clear(s)
	}
	s[origin] = number
	return true
}
