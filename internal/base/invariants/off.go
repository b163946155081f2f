//go:build !invariants

// Package invariants says whether the checks of the `invariants` build tag are compiled in: owner
// checks, mangling of recycled buffers, short reads and writes. They cost too much for production
// and find what the race detector cannot, since only one goroutine at a time uses a loop's data
// even when it is the wrong one.
package invariants

// Enabled is a constant, so that what it guards costs nothing without the tag.
const Enabled = false

// Mangle does nothing without the tag.
func Mangle([]byte) {}

// Owner is nothing without the tag.
type Owner struct{}

// Enter makes the calling goroutine the owner.
func (*Owner) Enter() {}

// Leave lets any goroutine be the owner.
func (*Owner) Leave() {}

// Here reports whether the calling goroutine is the owner, which is true without the tag.
func (*Owner) Here() bool { return true }
