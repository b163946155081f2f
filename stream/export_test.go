package stream

import (
	"testing"

	"github.com/lwango/lwango/internal/base/openfiles"
)

// ByTurns returns addresses in the order in which Dial tries them.
var ByTurns = alternate

// FD returns the descriptor of a stream.
func FD(s *Conn) int { return s.d.FD() }

// PipesMade returns how many pipes there are, and MaxPipes how many there may be.
func PipesMade() int { return int(pipeCount.Load()) }
func MaxPipes() int  { return MaxPipeDescriptors() / 2 }

// SetBudget sets whose descriptors pipes have that are made until the test's end.
func SetBudget(t testing.TB, b *openfiles.Budget) {
	old := pipeDescriptors
	pipeDescriptors = b
	t.Cleanup(func() { pipeDescriptors = old })
}
