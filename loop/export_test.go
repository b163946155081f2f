package loop

import (
	"log/slog"
	"time"

	"github.com/lwango/lwango/coro"
)

// NextFlags is the table step, for the test against a reference.
func NextFlags(f uint32, c coro.Code) uint32 { return uint32(flags(f).next(c)) }

// Bits of the flags word.
const (
	Suspended = uint32(suspended)
	MaskShift = maskShift
)

// PlaceOf is where the watchdog sees a stack of these functions, innermost first: the function's name.
func PlaceOf(functions ...string) string {
	var s stack
	for _, f := range functions {
		s = append(s, frame{function: f, position: f})
	}
	return s.place()
}

// NewWatchdogAt is NewWatchdog with a clock, which is asked when it is made and at each look.
func NewWatchdogAt(log *slog.Logger, now func() time.Time, limit time.Duration, loops ...*Loop) *Watchdog {
	return newWatchdog(log, now, limit, loops)
}
