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
