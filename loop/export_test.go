package loop

import "github.com/lwango/lwango/coro"

// NextFlags is the table step, for the test against a reference.
func NextFlags(f uint32, c coro.Code) uint32 { return uint32(flags(f).next(c)) }

// Bits of the flags word.
const (
	Suspended = uint32(suspended)
	MaskShift = maskShift
)
