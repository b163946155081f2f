package loop

import "time"

// share is what a part of a turn may take: the run queue, or the timers. Thousands of threads may
// become ready at once, and each may close a connection, which takes ten microseconds or more. What
// is left of them goes on in the next turn, after the loop has looked for events.
//
// A share is turnShare, after the first lookEvery threads. So a short turn never asks for the time.
type share struct {
	n     int
	since time.Time
	over  bool
}

const (
	turnShare = time.Millisecond
	lookEvery = 8 // threads: asking for the time costs one percent of a small request
)

func (s *share) begin() { *s = share{} }

// spent counts a thread that has run, and reports whether it was the last for this turn.
func (s *share) spent() bool {
	if s.n++; s.n%lookEvery == 0 {
		now := time.Now()
		if s.n == lookEvery {
			s.since = now
		}
		s.over = now.Sub(s.since) >= turnShare
	}
	return s.over
}
