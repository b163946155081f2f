package http2

import (
	"io"
	"slices"
)

// Gather makes ready for frames, which the caller appends to Out.
func (w *Wire) Gather() {
	if len(w.Out) > 0 {
		return
	}
	w.batch++
	if w.Out == nil {
		w.Out = outputs.Get().(*[OutputSize]byte)[:0]
	}
}

// Send writes all that is to be sent at once: what was gathered, and content of the streams that
// wait to send. It reports whether there was any. While it writes, streams go on gathering.
func (w *Wire) Send(to io.Writer) (any bool, err error) {
	w.Fill()
	if len(w.Out) == 0 {
		return false, nil
	}
	out := w.Out
	if w.spare == nil {
		w.spare = outputs.Get().(*[OutputSize]byte)[:0]
	}
	w.Out, w.spare = w.spare[:0], nil
	w.batch++
	_, err = to.Write(out)
	w.spare = out[:0]
	return true, err
}

// Fill gathers frames of the streams that wait, in the order of their ranks.
func (w *Wire) Fill() {
	if w.queued == 0 {
		return
	}
	for r := range w.queue {
		for q := &w.queue[r]; q.first != nil; {
			if len(w.Out) >= MaxOutput || w.Window <= 0 {
				return
			}
			s := q.first
			w.Unqueue(s)
			n := int(min(int64(s.Allowed), int64(w.MaxFrameSize), s.Window, w.Window))
			w.data(s, s.Pending[:n])
			s.Allowed -= n
			if s.Pending = s.Pending[n:]; len(s.Pending) == 0 {
				s.Pending = nil
			}
			s.Owner.Gathered(n)
			w.Requeue(s)
		}
	}
}

// SendNow gathers of p what may go out before all that waits, and returns the rest.
func (w *Wire) SendNow(s *Sender, p []byte) []byte {
	for len(p) > 0 && len(s.Pending) == 0 && len(w.Out) < MaxOutput/2 && s.Window > 0 &&
		w.Window > 0 && (w.queued == 0 || w.isNext(s)) {
		n := int(min(int64(len(p)), int64(w.MaxFrameSize), s.Window, w.Window))
		w.data(s, p[:n])
		p = p[n:]
	}
	return p
}

// data gathers a Data frame.
func (w *Wire) data(s *Sender, p []byte) {
	w.Gather()
	s.lastFrame, s.lastBatch = int32(len(w.Out)), w.batch
	w.Out = AppendHeader(w.Out, Data, 0, s.ID, len(p))
	w.Out = append(w.Out, p...)
	s.Window -= int64(len(p))
	w.Window -= int64(len(p))
	w.sent(len(p))
}

// End gathers the end of a stream that has no trailer section.
func (w *Wire) End(s *Sender) {
	w.Gather()
	if s.lastBatch == w.batch && s.lastBatch != 0 { // its last frame has not gone out
		w.Out[s.lastFrame+4] |= EndStream
		return
	}
	w.Out = AppendHeader(w.Out, Data, EndStream, s.ID, 0)
}

// BeginBlock gathers the beginning of a Headers frame, and returns where it stands. flags is
// EndStream or 0.
func (w *Wire) BeginBlock(id uint32, flags uint8) (at int) {
	w.Gather()
	at = len(w.Out)
	w.Out = AppendHeader(w.Out, Headers, flags|EndHeaders, id, 0)
	if !w.noTableSent {
		w.noTableSent = true
		w.Out = append(w.Out, NoTable)
	}
	return at
}

// EndBlock ends the frame that begins at an offset of Out. A block that is longer than a frame goes
// on in Continuation frames.
func (w *Wire) EndBlock(at int) {
	length := len(w.Out) - at - FrameHeaderLen
	if length <= w.MaxFrameSize {
		PutLength(w.Out[at:], length)
		return
	}
	h := ParseHeader(w.Out[at:])
	block := slices.Clone(w.Out[at+FrameHeaderLen:])
	w.Out = AppendBlock(w.Out[:at], h.Stream, h.Flags&EndStream, block, w.MaxFrameSize)
}

// Reset gathers the end of a stream that has failed.
func (w *Wire) Reset(id uint32, code Code) {
	w.Gather()
	w.Out = AppendReset(w.Out, id, code)
}

// Ping gathers a PING frame.
func (w *Wire) Ping(flags uint8, data string) {
	w.Gather()
	w.Out = append(AppendHeader(w.Out, Ping, flags, 0, len(data)), data...)
}

// SendWindowUpdate says that the peer may send n bytes more, if n is not 0.
func (w *Wire) SendWindowUpdate(id uint32, n int64) {
	if n > 0 {
		w.Gather()
		w.Out = AppendWindowUpdate(w.Out, id, uint32(n))
	}
}
