package http1

// A Span is a piece of a buffer by position. Positions survive when the buffer moves, as it does
// when it has to grow in the middle of a head; a sub-slice would not.
type Span struct{ Start, End uint32 }

// Of returns the bytes of b the span covers, without copying. It panics where b is shorter than the
// buffer the span came from.
func (s Span) Of(b []byte) []byte { return b[s.Start:s.End:s.End] }

// Len is the number of bytes covered.
func (s Span) Len() int { return int(s.End - s.Start) }

// A Field is one field line of a head: its name as sent, and its value without the white space
// around it.
type Field struct{ Name, Value Span }
