package settings

import (
	"slices"
	"strings"
)

// Suggest returns the one of names that got is most likely a slip of, or "". A third of the letters
// may be wrong, and at least one: enough for a transposition in a short word, too little to turn
// one key into an unrelated one.
func Suggest(got string, names []string) string {
	best, bestDist := "", len(got)/3+2
	for _, name := range slices.Sorted(slices.Values(names)) {
		if d := distance(fold(got), fold(name)); d < bestDist {
			best, bestDist = name, d
		}
	}
	return best
}

// fold makes keepAliveTimeout and keep-alive-timeout equal to keep_alive_timeout.
func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// distance counts the insertions, removals, replacements and exchanges of neighbours that turn a
// into b.
func distance(a, b string) int {
	var before, row, next []int
	row = make([]int, len(b)+1)
	next = make([]int, len(b)+1)
	before = make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j]+cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
