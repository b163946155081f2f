//go:build invariants

package invariants

import "runtime"

// Enabled is a constant, so that what it guards costs nothing without the tag.
const Enabled = true

// Owner is the goroutine that something belongs to; the zero Owner is any.
type Owner struct{ id string }

// Enter makes the calling goroutine the owner.
func (o *Owner) Enter() { o.id = goroutine() }

// Leave lets any goroutine be the owner.
func (o *Owner) Leave() { o.id = "" }

// Here reports whether the calling goroutine is the owner.
func (o *Owner) Here() bool { return o.id == "" || o.id == goroutine() }

// goroutine returns the name under which stack traces speak of the calling goroutine; there is no other way to tell
// goroutines apart.
func goroutine() string {
	var buf [32]byte
	name := buf[:runtime.Stack(buf[:], false)] // "goroutine 18 [running]:..."
	for i, c := range name[len("goroutine "):] {
		if c == ' ' {
			return string(name[:len("goroutine ")+i])
		}
	}
	return string(name)
}
