package stream

// ByTurns is the order in which addresses are tried.
var ByTurns = byTurns

// FD is the descriptor of a stream.
func FD(s *Stream) int { return s.d.FD() }
