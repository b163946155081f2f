package conn

import (
	"slices"
	"sync"

	"github.com/lwango/lwango/internal/http2"
)

// inputs are for sessions that have something to read.
var inputs = sync.Pool{New: func() any { return new([inputSize]byte) }}

// outputs are for what they send.
var outputs = sync.Pool{New: func() any { return new([outputSize]byte) }}

// frames acts on the frames that have come as a whole. An error that is a http2.Code ends the
// connection.
func (s *session) frames() error {
	if s.flags&greeted == 0 {
		have := s.in[s.r:s.w]
		n := min(len(have), len(http2.Preface))
		if string(have[:n]) != http2.Preface[:n] {
			return http2.ProtocolError
		}
		if n < len(http2.Preface) {
			return nil
		}
		s.r += n
		s.flags |= greeted
	}
	for s.w-s.r >= http2.HeaderSize && s.flags&failing == 0 {
		h := http2.ParseHeader(s.in[s.r:])
		code, onStream := h.CheckLength()
		if code != http2.NoError && !onStream {
			return code
		}
		if s.blockStream != 0 && (h.Type != http2.Continuation || h.Stream != s.blockStream) ||
			s.blockStream == 0 && h.Type == http2.Continuation {
			return http2.ProtocolError
		}
		if s.flags&settled == 0 && (h.Type != http2.SettingsFrame || h.Flags&http2.Ack != 0) {
			return http2.ProtocolError
		}
		end := s.r + http2.HeaderSize + int(h.Length)
		if end > s.w {
			return nil
		}
		payload := s.in[s.r+http2.HeaderSize : end]
		s.r = end
		if h.Type == http2.Data || h.Type == http2.Headers {
			var ok bool
			if payload, ok = http2.Unpad(h.Flags, payload); !ok {
				return http2.ProtocolError
			}
		}
		if onStream && code != http2.NoError {
			s.resetStream(h.Stream, code)
			continue
		}
		if now := s.Loop().Time().Unix(); now-s.idleFrom >= 60 {
			s.idle, s.idleFrom = min(s.idle, 0), now // a client that pings every second is not a flood
		}
		if s.idle++; s.idle > maxIdle {
			return http2.EnhanceYourCalm
		}
		if code := s.act(h, payload); code != http2.NoError {
			return code
		}
	}
	return nil
}

// act acts on one frame.
func (s *session) act(h http2.Header, payload []byte) http2.Code {
	var st *h2stream
	if h.Stream != 0 {
		if h.Stream%2 == 0 && h.Type != http2.Priority {
			return http2.ProtocolError // the server opens none
		}
		if st = s.find(h.Stream); st == nil && len(s.remnants) > 0 && h.Type != http2.Continuation {
			if ok, code := s.late(h, payload); ok {
				return code
			}
		}
		out := s.state(st, h.Stream).Accept(h.Type)
		if out.Code != http2.NoError {
			if h.Type == http2.Data { // it counts all the same
				if s.credit -= int64(h.Length); s.credit < 0 {
					return http2.FlowControlError
				}
				s.unread(int(h.Length))
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
	case http2.Headers:
		return s.headers(h, payload)
	case http2.Continuation:
		return s.continuation(h, payload)
	case http2.RSTStream:
		if st != nil {
			s.drop(st)
			return s.countReset()
		}
	case http2.SettingsFrame:
		return s.settings(h, payload)
	case http2.PushPromise:
		return http2.ProtocolError
	case http2.Ping:
		if h.Flags&http2.Ack == 0 {
			s.out = http2.AppendHeader(s.out, http2.Ping, http2.Ack, 0, len(payload))
			s.out = append(s.out, payload...)
		} else {
			s.measured(payload)
		}
	case http2.GoAway:
		s.goAway(http2.NoError)
	case http2.WindowUpdate:
		return s.windowUpdate(h, st, payload)
	case http2.PriorityUpdate:
		return s.prioritize(http2.Uint32(payload)&^(1<<31), payload[4:])
	case http2.Priority:
		if http2.Uint32(payload)&^(1<<31) == h.Stream {
			s.resetStream(h.Stream, http2.ProtocolError)
		}
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
	s.port.tally.Resets++
	if s.resets++; s.resets > maxResets {
		return http2.EnhanceYourCalm
	}
	return http2.NoError
}

// resetStream ends a stream because of a mistake of the client.
func (s *session) resetStream(id uint32, code http2.Code) {
	s.out = http2.AppendReset(s.out, id, code)
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
	if i := slices.Index(s.ids, id); i >= 0 {
		return s.streams[i]
	}
	return nil
}

// add opens a stream.
func (s *session) add(st *h2stream) {
	st.at = len(s.streams)
	s.ids, s.streams = append(s.ids, st.id), append(s.streams, st)
}

// remove takes a stream out of those that are open.
func (s *session) remove(st *h2stream) {
	last := len(s.streams) - 1
	moved := s.streams[last]
	s.ids[st.at], s.streams[st.at], moved.at = moved.id, moved, st.at
	s.streams[last] = nil
	s.ids, s.streams = s.ids[:last], s.streams[:last]
	st.at = -1
}

// forget closes a stream.
func (s *session) forget(st *h2stream) {
	if st.at < 0 {
		return
	}
	s.remove(st)
	s.recent[s.closed%uint(len(s.recent))] = st.id
	s.closed++
	st.unqueue()
	s.unread(len(st.body.buf) - st.body.r)
	st.body.ended = st.body.ended && st.body.r == len(st.body.buf) // what is dropped here was not read
	st.body.buf, st.body.r = nil, 0
}

// headers acts on the beginning of a field block.
func (s *session) headers(h http2.Header, payload []byte) http2.Code {
	if h.Flags&http2.Prioritied != 0 {
		if len(payload) < 5 {
			return http2.FrameSizeError
		}
		if http2.Uint32(payload)&^(1<<31) == h.Stream {
			return http2.ProtocolError // a stream that depends on itself
		}
		payload = payload[5:]
	}
	if h.Flags&http2.EndHeaders != 0 {
		return s.fields(h.Stream, h.Flags&http2.EndStream != 0, payload)
	}
	s.blockStream, s.blockEnds, s.fragments = h.Stream, h.Flags&http2.EndStream != 0, 0
	s.block = append(s.block[:0], payload...)
	return http2.NoError
}

// continuation acts on more of a field block. A block that is far longer than the fields may be, or
// comes in too many frames, ends the connection: the table cannot be kept without reading it.
func (s *session) continuation(h http2.Header, payload []byte) http2.Code {
	s.fragments++
	if len(s.block)+len(payload) > 2*int(s.set.MaxHeaderSize)+http2.FrameSize || s.fragments > maxFragments {
		return http2.EnhanceYourCalm
	}
	s.block = append(s.block, payload...)
	if h.Flags&http2.EndHeaders == 0 {
		return http2.NoError
	}
	id, block := s.blockStream, s.block
	s.blockStream, s.block = 0, nil
	return s.fields(id, s.blockEnds, block)
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
		if s.dec.Decode(block, &dropped) != nil {
			return http2.CompressionError
		}
		if late {
			return http2.NoError
		}
		if !ends {
			s.ignore(id, ownWindow)
		}
		if s.flags&leaving == 0 {
			s.out = http2.AppendReset(s.out, id, http2.RefusedStream)
			return s.countReset()
		}
		return http2.NoError
	}
	st := s.port.newStream(s, id)
	st.fields.Reset(int(s.set.MaxHeaderSize))
	if s.dec.Decode(block, &st.fields) != nil {
		return http2.CompressionError
	}
	s.idle = min(s.idle, 0)
	p, ok := st.fields.Request(false)
	if !ok && !st.fields.Over {
		s.port.freeStream(st)
		if !ends {
			s.ignore(id, ownWindow)
		}
		s.out = http2.AppendReset(s.out, id, http2.ProtocolError)
		return s.countReset()
	}
	st.begin(&p, len(block), ends)
	return http2.NoError
}

func (s *session) trailer(st *h2stream, ends bool, block []byte) http2.Code {
	trailer := new(http2.Fields)
	trailer.Reset(8 << 10)
	if s.dec.Decode(block, trailer) != nil {
		return http2.CompressionError
	}
	if _, ok := trailer.Request(true); !ok || !ends || st.body.expected > 0 {
		s.resetStream(st.id, http2.ProtocolError)
		return http2.NoError
	}
	if !trailer.Over {
		st.body.trailer = trailer
	}
	st.body.ended = true
	st.notify()
	return http2.NoError
}

// data acts on content.
func (s *session) data(h http2.Header, st *h2stream, content []byte) http2.Code {
	s.credit -= int64(h.Length)
	if s.credit < 0 {
		return http2.FlowControlError
	}
	b := &st.body
	if b.credit -= int64(h.Length); b.credit < 0 {
		s.unread(int(h.Length))
		s.resetStream(st.id, http2.FlowControlError)
		return http2.NoError
	}
	ends := h.Flags&http2.EndStream != 0
	if b.expected >= 0 {
		b.expected -= int64(len(content))
		if b.expected < 0 || ends && b.expected > 0 {
			s.unread(int(h.Length))
			s.resetStream(st.id, http2.ProtocolError)
			return http2.NoError
		}
	}
	if len(content) > 0 {
		s.idle, s.probed = min(s.idle, 0), s.probed+int64(h.Length)
	}
	st.got(content, int(h.Length)-len(content), ends)
	return http2.NoError
}

// settings acts on the client's settings.
func (s *session) settings(h http2.Header, payload []byte) http2.Code {
	if h.Flags&http2.Ack != 0 {
		return http2.NoError
	}
	for ; len(payload) > 0; payload = payload[6:] {
		setting := http2.Setting(payload[0])<<8 | http2.Setting(payload[1])
		value := http2.Uint32(payload[2:])
		if code := http2.CheckSetting(setting, value); code != http2.NoError {
			return code
		}
		switch setting {
		case http2.InitialWindowSize:
			change := int64(value) - s.newWindow
			s.newWindow = int64(value)
			for _, st := range s.streams {
				if st.window += change; st.window > http2.LargestWindow {
					return http2.FlowControlError
				}
				if st.window <= 0 { // it waited for the connection's window
					st.unqueue()
				}
				st.requeue()
			}
		case http2.MaxFrameSize:
			s.frame = int(min(value, http2.FrameSize))
		}
	}
	s.flags |= settled
	s.out = http2.AppendHeader(s.out, http2.SettingsFrame, http2.Ack, 0, 0)
	return http2.NoError
}

func (s *session) windowUpdate(h http2.Header, st *h2stream, payload []byte) http2.Code {
	n := int64(http2.Uint32(payload) &^ (1 << 31))
	switch {
	case h.Stream == 0:
		if n == 0 {
			return http2.ProtocolError
		}
		if s.window += n; s.window > http2.LargestWindow {
			return http2.FlowControlError
		}
	case st == nil: // closed
	case n == 0:
		s.resetStream(st.id, http2.ProtocolError)
	default:
		if st.window += n; st.window > http2.LargestWindow {
			s.resetStream(st.id, http2.FlowControlError)
			return http2.NoError
		}
		st.requeue()
	}
	return http2.NoError
}
