// Package timeoutwheel keeps the timers of one event loop: many thousands, of which nearly all are
// cancelled or moved before they expire.
//
//	w := timeoutwheel.New(now)     // milliseconds
//	c.timer.Init(c)                // a field of a record, which has Expire
//	w.Add(&c.timer, now+15_000)    // a second Add moves it
//	at, ok := w.Next()             // until when the loop may sleep
//	w.Advance(now)                 // calls Expire of all that are due
//
// That few timers expire decides the structure. A heap makes each Add and Cancel cost O(log n), for
// an order that is seldom needed. A [Wheel] sorts a timer only as far as its distance requires, and
// again when that distance has shrunk. Add and Cancel are O(1), nothing allocates, and the links
// are inside the [Timer], a field of the record that it watches (a connection, a sleeping thread).
//
// Times are int64 milliseconds on a clock of the caller's choice, which should be monotonic. The
// package never reads a clock: the loop says what time it is with [Wheel.Advance], and learns from
// [Wheel.Next] how long it may sleep. Any int64 is a valid time, and no distance is too long for
// the wheel.
//
// A Wheel and the Timers on it belong to one goroutine at a time (the loop's). Nothing here locks.
//
// # What holds
//
//   - A timer never expires early: Expire runs in an Advance(now) with at <= now.
//   - It never expires late: the first such Advance runs it, unless an Expire says Pause.
//   - Within one Advance timers expire in the order of their times, and those of equal time in the
//     order in which they were added. Those that were already due when they were added come first,
//     in the order in which they were added.
//   - When Expire runs, its timer is idle: the owner may add it again, or put it back into a pool.
//
// # Files
//
//	wheel.go  Timer, Wheel: everything a caller uses
//	slots.go  levels and slots: where a time belongs, and how it gets closer
//	list.go   the intrusive ring that a slot is
package timeoutwheel
