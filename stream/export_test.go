package stream

// ByTurns returns addresses in the order in which Dial tries them.
var ByTurns = byTurns

// FD returns the descriptor of a stream.
func FD(s *Stream) int { return s.d.FD() }

// PipesMade returns how many pipes there are, and MaxPipes how many there may be.
func PipesMade() int { return int(made.Load()) }
func MaxPipes() int  { return int(maxPipes()) }
