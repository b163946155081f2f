package loop

import "time"

// StuckError is the error of a stop at which code holds a loop up, so that the loop cannot end.
type StuckError struct {
	Place string // file and line, as in a Stall; "" if it was not found
}

func (e *StuckError) Error() string {
	if e.Place == "" {
		return "a loop is held up and does not end"
	}
	return "a loop is held up and does not end: " + e.Place
}

// AwaitEnd waits, after Stop, until Run has returned. If code holds the loop up when the grace
// period is over, which is at the given time, nothing can end that code. So when no thread has
// ended for as long as patience, AwaitEnd logs the code's stack and returns a *StuckError. The loop
// may still end later. Any goroutine may call it.
func (l *Loop) AwaitEnd(over time.Time, patience time.Duration) error {
	timer := time.NewTimer(time.Until(over) + patience)
	defer timer.Stop()
	for kills := int64(0); ; {
		select {
		case <-l.ended:
			return nil
		case <-timer.C:
		}
		if n := l.pulse.kills.Load(); n != kills {
			kills = n
			timer.Reset(patience)
			continue
		}
		runs, suspended := culprit(l.pulse.name)
		e := new(StuckError)
		if runs != nil {
			e.Place = runs.place()
		}
		l.log.Error("loop: held up, it does not end", append(append([]any{"place", e.Place},
			runs.advice(suspended)...), "stack", runs.String())...)
		return e
	}
}
