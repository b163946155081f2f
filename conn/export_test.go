package conn

import "time"

// SetGraceOfRate makes the rate of a peer count earlier. It is for before any server runs; restore is for after.
func SetGraceOfRate(d time.Duration) (restore func()) {
	old := graceOfRate
	graceOfRate = d
	return func() { graceOfRate = old }
}

// SetLingerTime bounds lingering closes; as SetGraceOfRate.
func SetLingerTime(d time.Duration) (restore func()) {
	old := lingerTime
	lingerTime = d
	return func() { lingerTime = old }
}

// LingerBytes is the bound on what a lingering close reads.
const LingerBytes = lingerBytes

// ByTurns is the order in which addresses are tried.
var ByTurns = byTurns

// FD is the descriptor of a stream.
func FD(s *Stream) int { return s.d.FD() }
