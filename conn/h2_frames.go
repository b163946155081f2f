package conn

import "github.com/lwango/lwango/internal/wire/http2"

// frames acts on the frames that have come as a whole. A code other than NoError ends the
// connection.
func (s *session) frames() http2.Code {
	if s.flags&prefaceRead == 0 {
		have := s.Unparsed()
		n := min(len(have), len(http2.Preface))
		if string(have[:n]) != http2.Preface[:n] {
			return http2.ProtocolError
		}
		if n < len(http2.Preface) {
			return http2.NoError
		}
		s.Discard(n)
		s.flags |= prefaceRead
	}
	now := s.Loop().Time().Unix()
	for s.flags&failing == 0 && s.begun < runBegun {
		h, payload, ok, code := s.Next(now, s.unsent())
		if !ok {
			return code
		}
		if code := s.act(h, payload); code != http2.NoError {
			return code
		}
		if s.Block.Stream == 0 {
			s.partFrom = 0
		}
	}
	return http2.NoError
}

// act acts on one frame.
func (s *session) act(h http2.Header, payload []byte) http2.Code {
	var st *h2stream
	if h.Stream != 0 {
		if h.Type == http2.Priority {
			switch {
			case h.Length != 5:
				s.resetStream(h.Stream, http2.FrameSizeError)
			case http2.Uint32(payload)&^(1<<31) == h.Stream:
				s.resetStream(h.Stream, http2.ProtocolError)
			}
			return http2.NoError
		}
		// The server opens no stream, and takes no push; frames of unknown types are of no effect.
		if h.Stream%2 == 0 && h.Type <= http2.Continuation || h.Type == http2.PushPromise {
			return http2.ProtocolError
		}
		if st = s.find(h.Stream); st == nil && len(s.closedStreams) > 0 && h.Type != http2.Continuation {
			if ok, code := s.late(h, payload); ok {
				return code
			}
		}
		out := s.state(st, h.Stream).Accept(h.Type)
		if out.Code != http2.NoError {
			if h.Type == http2.Data { // it counts all the same
				if !s.Inflow.Received(int64(h.Length)) {
					return http2.FlowControlError
				}
				s.dropped(int(h.Length))
			}
			if out.Connection {
				if h.Type == http2.Headers && !s.wasClosed(h.Stream) {
					return http2.ProtocolError // a stream that was never opened, behind later ones
				}
				return out.Code
			}
			s.resetStream(h.Stream, out.Code)
			return http2.NoError
		}
	}
	switch h.Type {
	case http2.Data:
		return s.data(h, st, payload)
	case http2.Headers, http2.Continuation:
		return s.block(h, payload)
	case http2.RSTStream:
		if st != nil {
			s.drop(st)
			return s.countReset()
		}
	case http2.SettingsFrame:
		code := s.Settings(h, payload, nil)
		for _, sender := range s.Open { // their windows may have changed
			streamOf(sender).keepsWaiting()
		}
		return code
	case http2.Ping:
		if h.Flags&http2.Ack == 0 {
			s.Ping(http2.Ack, string(payload))
			s.pinged = max(s.Loop().Layer().Clock(s.Loop().Time()), 1)
		} else {
			s.measured(payload)
		}
	case http2.GoAway:
		s.goAway(http2.NoError)
	case http2.WindowUpdate:
		var sender *http2.Sender
		if st != nil {
			sender = &st.Sender
		}
		code := s.WindowUpdate(h, sender, payload)
		if st != nil {
			st.keepsWaiting()
		}
		if code == http2.NoError || h.Stream == 0 {
			return code
		}
		s.resetStream(h.Stream, code)
	case http2.PriorityUpdate:
		return s.prioritize(http2.Uint32(payload)&^(1<<31), payload[4:])
	}
	return http2.NoError
}

// state returns that of the stream id, which is st; nil: it is not open.
func (s *session) state(st *h2stream, id uint32) http2.State {
	switch {
	case st != nil && st.body.ended:
		return http2.HalfClosed
	case st != nil:
		return http2.Open
	case id > s.last:
		return http2.Idle
	}
	return http2.Closed
}

func (s *session) wasClosed(id uint32) bool {
	for _, r := range s.recent {
		if r == id {
			return true
		}
	}
	return false
}

// countReset counts a stream that has ended without an answer because of the client.
func (s *session) countReset() http2.Code {
	s.port.stats.Resets++
	return s.ChargeReset()
}

// resetStream ends a stream because of a mistake of the client.
func (s *session) resetStream(id uint32, code http2.Code) {
	s.Reset(id, code)
	if st := s.find(id); st != nil {
		s.ignoreRest(st)
		s.drop(st)
	}
	if s.countReset() != http2.NoError {
		s.goAway(http2.EnhanceYourCalm)
	}
}

// drop closes a stream whose handler may still run.
func (s *session) drop(st *h2stream) {
	s.forget(st)
	st.left(errReset)
}

// find returns the open stream of that number, nil if there is none.
func (s *session) find(id uint32) *h2stream {
	if id > s.last {
		return nil
	}
	return streamOf(s.Find(id))
}

// streamOf returns the stream that sends by it, nil for none.
func streamOf(sender *http2.Sender) *h2stream {
	if sender == nil {
		return nil
	}
	return sender.Owner.(*h2stream)
}

// forget closes a stream.
func (s *session) forget(st *h2stream) {
	if !st.IsOpen() {
		return
	}
	s.Remove(&st.Sender)
	s.recent[s.closed%uint(len(s.recent))] = st.ID
	s.closed++
	s.wasRead(st.body.in.Len())
	st.body.ended = st.body.ended && st.body.in.Len() == 0 // what is dropped here was not read
	st.body.in.Reset()
}

// block acts on a Headers or Continuation frame.
func (s *session) block(h http2.Header, payload []byte) http2.Code {
	block, whole, code := s.Block.Add(h, payload, int(s.set.MaxHeaderSize))
	if !whole {
		return code
	}
	return s.fields(h.Stream, s.Block.Ends, block)
}

// fields acts on a whole field block: a request, or the trailer section of one.
func (s *session) fields(id uint32, ends bool, block []byte) http2.Code {
	if st := s.find(id); st != nil {
		return s.trailer(st, ends, block)
	}
	late := id <= s.last // the trailer section of a body that is dropped
	s.last = max(s.last, id)
	s.set = s.port.server.settings.Load()
	if late || s.flags&leaving != 0 || s.active >= s.set.MaxStreams {
		// Not processed, so the client may send it again. The table has to follow.
		var dropped http2.Fields
		dropped.Reset(trailerSize)
		if s.Decode(block, &dropped) != nil {
			return http2.CompressionError
		}
		if late {
			s.lateTrailer(id, ends, &dropped)
			return http2.NoError
		}
		if !ends {
			s.ignore(id, ownWindow)
		}
		if s.flags&leaving == 0 {
			s.Reset(id, http2.RefusedStream)
			return s.countReset()
		}
		return http2.NoError
	}
	st := s.port.newStream(s, id)
	st.fields.Reset(int(s.set.MaxHeaderSize))
	if s.Decode(block, &st.fields) != nil {
		return http2.CompressionError
	}
	p, ok := st.fields.Request(false)
	if !ok && !st.fields.TooLarge {
		s.port.freeStream(st)
		if !ends {
			s.ignore(id, ownWindow)
		}
		s.Reset(id, http2.ProtocolError)
		return s.countReset()
	}
	s.Refund(http2.FrameCost) // its own: the streams have their bound
	s.begun++
	st.begin(&p, len(block), ends)
	return http2.NoError
}

// trailerSize is how many bytes of fields a trailer section may have.
const trailerSize = 8 << 10

func (s *session) trailer(st *h2stream, ends bool, block []byte) http2.Code {
	trailer := new(http2.Fields)
	trailer.Reset(trailerSize)
	if s.Decode(block, trailer) != nil {
		return http2.CompressionError
	}
	if st.body.ended {
		s.resetStream(st.ID, http2.StreamClosed)
		return http2.NoError
	}
	if _, ok := trailer.Request(true); !ok || !ends || st.body.expected > 0 {
		s.resetStream(st.ID, http2.ProtocolError)
		return http2.NoError
	}
	if !trailer.TooLarge {
		st.body.trailer = trailer
	}
	st.body.ended = true
	st.notify()
	return http2.NoError
}

// data acts on content.
func (s *session) data(h http2.Header, st *h2stream, content []byte) http2.Code {
	n := int64(h.Length)
	if !s.Inflow.Received(n) {
		return http2.FlowControlError
	}
	b := &st.body
	code := http2.NoError
	ends := h.Flags&http2.EndStream != 0
	if !b.flow.Received(n) {
		code = http2.FlowControlError
	} else if b.expected >= 0 {
		b.expected -= int64(len(content))
		if b.expected < 0 || ends && b.expected > 0 {
			code = http2.ProtocolError
		}
	}
	if code != http2.NoError {
		s.dropped(int(n))
		s.resetStream(st.ID, code)
		return http2.NoError
	}
	if len(content) > 0 {
		s.Refund(http2.DataRefund)
		s.probed += n
	}
	st.got(content, int(n)-len(content), ends)
	if s.extendWindow(); s.Inflow.Window == 0 {
		s.creditChanges()
	}
	return http2.NoError
}
