//go:build invariants

package invariants

import (
	"runtime"
	"sync"
)

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
func (o *Owner) Enter() { o.id = goroutine() }

// Leave lets any goroutine be the owner.
func (o *Owner) Leave() { o.id = 0 }

// Here reports whether the calling goroutine is the owner.
func (o *Owner) Here() bool { return o.id == 0 || o.id == goroutine() }

// goroutine returns the number by which stack traces speak of the calling goroutine; there is no
// other way to tell goroutines apart.
func goroutine() (id uint64) {
	buf := buffers.Get().(*[32]byte)
	defer buffers.Put(buf)
	// "goroutine 18 [running]:..."
	for _, c := range buf[len("goroutine "):runtime.Stack(buf[:], false)] {
		if c < '0' || c > '9' {
			break
		}
		id = 10*id + uint64(c-'0')
	}
	return id
}

// buffers are there for the tests of allocations, which run with the tag, too.
var buffers = sync.Pool{New: func() any { return new([32]byte) }}
