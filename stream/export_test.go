package stream

// ByTurns returns addresses in the order in which Dial tries them.
var ByTurns = byTurns

// FD returns the descriptor of a stream.
func FD(s *Stream) int { return s.d.FD() }
