//go:build invariants

package invariants

import "github.com/lwango/lwango/internal/base/goroutine"

// Enabled is a constant, so that what it guards costs nothing without the tag.
const Enabled = true

// Mangle overwrites b, whose owner has given it up.
func Mangle(b []byte) {
	for i := range b {
		b[i] = 0xDB
	}
}

// Owner is the goroutine that something belongs to; the zero Owner is any.
type Owner struct{ id uint64 }

// Enter makes the calling goroutine the owner.
func (o *Owner) Enter() { o.id = goroutine.ID() }

// Leave lets any goroutine be the owner.
func (o *Owner) Leave() { o.id = 0 }

// Here reports whether the calling goroutine is the owner.
func (o *Owner) Here() bool { return o.id == 0 || o.id == goroutine.ID() }
