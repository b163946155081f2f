package http2

// Block is a field block of the peer that goes on in Continuation frames.
type Block struct {
	Stream uint32 // 0: none is under way
	Ends   bool   // the stream ends with the block that has come last
	octets []byte
}

// continues reports whether a frame may come now: nothing may come between the frames of a block
// (section 6.10).
func (b *Block) continues(h Header) bool {
	if b.Stream == 0 {
		return h.Type != Continuation
	}
	return h.Type == Continuation && h.Stream == b.Stream
}

// Add adds a Headers or Continuation frame, and returns the block if it is complete. limit is how
// long its fields may be. A block that is far longer ends the connection with the code: the table
// cannot be kept without reading it.
func (b *Block) Add(h Header, payload []byte, limit int) (block []byte, whole bool, code Code) {
	if h.Type == Headers {
		b.Ends = h.Flags&EndStream != 0
		if h.Flags&EndHeaders != 0 {
			return payload, true, NoError
		}
		b.Stream, b.octets = h.Stream, append(b.octets[:0], payload...)
		return nil, false, NoError
	}
	if len(b.octets)+len(payload) > 2*limit+DefaultFrameSize {
		return nil, false, EnhanceYourCalm
	}
	b.octets = append(b.octets, payload...)
	if h.Flags&EndHeaders == 0 {
		return nil, false, NoError
	}
	block = b.octets
	b.Stream, b.octets = 0, nil
	return block, true, NoError
}
