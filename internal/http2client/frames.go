package http2client

import (
	"fmt"
	"slices"

	"github.com/lwango/lwango/internal/http2"
	"github.com/lwango/lwango/loop"
)

// frames acts on the frames that have come as a whole. A code other than NoError ends the connection.
func (s *Session) frames() http2.Code {
	for s.w-s.r >= http2.HeaderSize {
		h := http2.ParseHeader(s.in[s.r:])
		if !s.settled && (h.Type != http2.SettingsFrame || h.Flags&http2.Ack != 0) {
			return http2.ProtocolError
		}
		code, onStream := h.CheckLength()
		if code != http2.NoError && !onStream {
			return code
		}
		if s.blockStream != 0 && (h.Type != http2.Continuation || h.Stream != s.blockStream) ||
			s.blockStream == 0 && h.Type == http2.Continuation {
			return http2.ProtocolError
		}
		end := s.r + http2.HeaderSize + int(h.Length)
		if end > s.w {
			return http2.NoError
		}
		payload := s.in[s.r+http2.HeaderSize : end]
		s.r = end
		if h.Type == http2.Data || h.Type == http2.Headers {
			var ok bool
			if payload, ok = http2.Unpad(h.Flags, payload); !ok {
				return http2.ProtocolError
			}
		}
		s.heard, s.pinging = s.now(), false
		if now := s.thread.Loop().Time().Unix() / 60; now != s.minute {
			s.useless, s.minute = min(s.useless, 0), now // a server that pings every second is no flood
		}
		if s.useless++; s.useless > maxUseless {
			return http2.EnhanceYourCalm
		}
		if code != http2.NoError { // the length of a Priority frame, which says nothing
			continue
		}
		if code := s.act(h, payload); code != http2.NoError {
			return code
		}
	}
	return http2.NoError
}

// act acts on one frame.
func (s *Session) act(h http2.Header, payload []byte) http2.Code {
	var st *Stream
	if h.Stream != 0 && h.Type <= http2.Continuation && h.Type != http2.Priority {
		if h.Stream%2 == 0 || h.Stream >= s.next {
			return http2.ProtocolError // the server opens none
		}
		st = s.find(h.Stream)
	}
	switch h.Type {
	case http2.Data:
		return s.data(h, st, payload)
	case http2.Headers:
		return s.headers(h, st, payload)
	case http2.Continuation:
		return s.continuation(h, payload)
	case http2.RSTStream:
		if st != nil {
			s.wasReset(st, http2.Code(http2.Uint32(payload)))
		}
	case http2.SettingsFrame:
		return s.settings(h, payload)
	case http2.PushPromise:
		return http2.ProtocolError
	case http2.Ping:
		if h.Flags&http2.Ack == 0 {
			s.gather()
			s.out = http2.AppendHeader(s.out, http2.Ping, http2.Ack, 0, len(payload))
			s.out = append(s.out, payload...)
		}
	case http2.GoAway:
		s.away(http2.Uint32(payload)&^(1<<31), http2.Code(http2.Uint32(payload[4:])))
	case http2.WindowUpdate:
		return s.windowUpdate(h, st, payload)
	}
	return http2.NoError
}

// find returns the open stream of that number, nil if there is none.
func (s *Session) find(id uint32) *Stream {
	if i := slices.Index(s.ids, id); i >= 0 {
		return s.streams[i]
	}
	return nil
}

// remove takes a stream out of those that are open.
func (s *Session) remove(st *Stream) {
	if st.at < 0 {
		return
	}
	st.unqueue()
	last := len(s.streams) - 1
	moved := s.streams[last]
	s.ids[st.at], s.streams[st.at], moved.at = moved.id, moved, st.at
	s.streams[last] = nil
	s.ids, s.streams = s.ids[:last], s.streams[:last]
	st.at = -1
}

// reset closes a stream. What is on its way to it may still come.
func (s *Session) reset(st *Stream, code http2.Code) {
	s.gather()
	s.out = http2.AppendReset(s.out, st.id, code)
	if !st.answered {
		s.late += max(st.credit, 0)
	}
	s.remove(st)
}

// malformed ends a stream because of a mistake in the answer.
func (s *Session) malformed(st *Stream, code http2.Code, err error) {
	s.reset(st, code)
	st.fail(fmt.Errorf("%w: %w", ErrMalformed, err))
}

// begun reports that part of an answer has come. A server that says afterwards that it has not acted on
// the request cannot be believed.
func (st *Stream) begun() bool { return st.final || st.interim > 0 }

// wasReset acts on a RST_STREAM of the server.
func (s *Session) wasReset(st *Stream, code http2.Code) {
	s.remove(st)
	if code == http2.RefusedStream && !st.begun() {
		st.fail(fmt.Errorf("%w: %v", ErrRefused, code))
	} else {
		st.fail(fmt.Errorf("the stream was reset: %w", code))
	}
}

// away acts on a GOAWAY: the server has not acted on the streams beyond last, and will not.
func (s *Session) away(last uint32, code http2.Code) {
	s.goneAway = true
	s.leave()
	for i := len(s.streams) - 1; i >= 0; i-- { // remove fills a place from the end
		if st := s.streams[i]; st.id > last {
			s.remove(st)
			if st.begun() {
				st.fail(fmt.Errorf("GOAWAY within the answer: %w", code))
			} else {
				st.fail(fmt.Errorf("%w: GOAWAY: %v", ErrRefused, code))
			}
		}
	}
}

// headers acts on the beginning of a field block.
func (s *Session) headers(h http2.Header, st *Stream, payload []byte) http2.Code {
	if h.Flags&http2.Prioritied != 0 {
		if len(payload) < 5 {
			return http2.FrameSizeError
		}
		payload = payload[5:]
	}
	ends := h.Flags&http2.EndStream != 0
	if h.Flags&http2.EndHeaders != 0 {
		return s.fields(st, ends, payload)
	}
	s.blockStream, s.blockEnds, s.blockFrom, s.fragments = h.Stream, ends, s.now(), 0
	s.block = append(s.block[:0], payload...)
	return http2.NoError
}

// continuation acts on more of a field block. One that is far longer than the fields may be, or comes
// in too many frames, ends the connection: the table cannot be kept without reading it.
func (s *Session) continuation(h http2.Header, payload []byte) http2.Code {
	limit := headerList
	st := s.find(h.Stream)
	if st != nil {
		limit = st.limit
	}
	s.fragments++
	if len(s.block)+len(payload) > 2*limit+http2.FrameSize || s.fragments > maxFragments+limit>>10 {
		return http2.EnhanceYourCalm
	}
	s.block = append(s.block, payload...)
	if h.Flags&http2.EndHeaders == 0 {
		return http2.NoError
	}
	block := s.block
	s.blockStream, s.block = 0, nil
	return s.fields(st, s.blockEnds, block)
}

// fields acts on a whole field block; st is nil if its stream is closed.
func (s *Session) fields(st *Stream, ends bool, block []byte) http2.Code {
	if st == nil || st.answered {
		var dropped http2.Fields // the table has to follow
		if s.dec.Decode(block, &dropped) != nil {
			return http2.CompressionError
		}
		if st != nil {
			s.reset(st, http2.StreamClosed)
			st.fail(http2.StreamClosed)
		}
		return http2.NoError
	}
	if st.final {
		return s.trailer(st, ends, block)
	}
	h := st.addHead()
	h.Reset(st.limit)
	if s.dec.Decode(block, &h.Fields) != nil {
		st.dropHead()
		return http2.CompressionError
	}
	var ok bool
	switch h.Status, h.Length, ok = h.Response(); {
	case h.Over:
		s.noHead(st, errHeadSize)
	case !ok, h.Status < 200 && (ends || h.Length > 0):
		s.noHead(st, errFields)
	case h.Status < 200:
		st.interim++
		// Those that were not taken yet are held.
		if st.interim > maxInterim || len(st.heads)-st.taken > maxHeld && st.limit > headerList {
			s.noHead(st, errInterim)
		}
	default:
		st.final, s.quiet, s.useless = true, false, min(s.useless, 0)
		if st.expected = h.Length; st.head || h.Status == 204 || h.Status == 304 {
			st.expected = 0
		}
		if ends {
			s.end(st)
		}
	}
	loop.NotifyLocal(st.user)
	return http2.NoError
}

// headerList is how long a list of fields may be that no stream waits for.
const headerList = 64 << 10

// maxHeld is how many interim responses are held whose fields may be large.
const maxHeld = 8

// addHead returns a new Head, with the memory of one that was dropped.
func (st *Stream) addHead() *Head {
	if n := len(st.heads); n < cap(st.heads) {
		st.heads = st.heads[:n+1]
	} else {
		st.heads = append(st.heads, Head{})
	}
	return &st.heads[len(st.heads)-1]
}

// noHead ends a stream whose last head is of no use.
func (s *Session) noHead(st *Stream, err error) {
	st.dropHead()
	s.malformed(st, http2.ProtocolError, err)
}

// dropHead drops the head that has come last.
func (st *Stream) dropHead() {
	if st.heads = st.heads[:len(st.heads)-1]; st.taken == len(st.heads) {
		st.heads, st.taken = st.heads[:0], 0
	}
}

func (s *Session) trailer(st *Stream, ends bool, block []byte) http2.Code {
	trailer := new(http2.Fields)
	trailer.Reset(st.limit)
	if s.dec.Decode(block, trailer) != nil {
		return http2.CompressionError
	}
	switch {
	case trailer.Over:
		s.malformed(st, http2.ProtocolError, errHeadSize)
	case !ends || !trailer.Trailer():
		s.malformed(st, http2.ProtocolError, errFields)
	default:
		st.trailer = trailer
		s.end(st)
		loop.NotifyLocal(st.user)
	}
	return http2.NoError
}

// end acts on the end of an answer.
func (s *Session) end(st *Stream) {
	if st.expected > 0 {
		s.malformed(st, http2.ProtocolError, errLength)
		return
	}
	s.canceled = max(s.canceled-1, 0)
	if st.answered = true; st.sent {
		s.remove(st)
	}
}

// data acts on content.
func (s *Session) data(h http2.Header, st *Stream, content []byte) http2.Code {
	n := int64(h.Length)
	if code := s.came(n); code != http2.NoError {
		return code
	}
	if st == nil {
		if s.late -= n; s.late < 0 {
			return http2.StreamClosed
		}
		if n > 0 {
			s.useless--
		}
		return http2.NoError
	}
	ends := h.Flags&http2.EndStream != 0
	st.credit -= n
	switch {
	case st.answered:
		s.reset(st, http2.StreamClosed)
		st.fail(http2.StreamClosed)
		return http2.NoError
	case st.credit < 0:
		s.malformed(st, http2.FlowControlError, http2.FlowControlError)
		return http2.NoError
	case !st.final:
		s.malformed(st, http2.ProtocolError, errFields)
		return http2.NoError
	case st.expected >= 0 && int64(len(content)) > st.expected:
		s.malformed(st, http2.ProtocolError, errLength)
		return http2.NoError
	case st.expected > 0:
		st.expected -= int64(len(content))
	}
	if len(content) > 0 {
		s.quiet, s.useless = false, min(s.useless, 0)
		if st.r > 0 && len(content) > cap(st.buf)-len(st.buf) { // a slow reader may never empty it
			st.buf, st.r = st.buf[:copy(st.buf, st.buf[st.r:])], 0
		}
		st.buf = append(st.buf, content...)
	}
	if ends {
		s.end(st)
	} else if padding := int(n) - len(content); padding > 0 {
		st.consumed(padding)
	}
	loop.NotifyLocal(st.user)
	return http2.NoError
}

// settings acts on the server's settings.
func (s *Session) settings(h http2.Header, payload []byte) http2.Code {
	if h.Flags&http2.Ack != 0 {
		return http2.NoError
	}
	most := s.most
	if !s.settled {
		most = maxStreams // the protocol has no limit
	}
	for ; len(payload) > 0; payload = payload[6:] {
		setting := http2.Setting(payload[0])<<8 | http2.Setting(payload[1])
		value := http2.Uint32(payload[2:])
		if code := http2.CheckSetting(setting, value); code != http2.NoError {
			return code
		}
		switch setting {
		case http2.EnablePush:
			if value != 0 {
				return http2.ProtocolError
			}
		case http2.MaxConcurrentStreams:
			most = int(min(value, maxStreams))
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
	s.settled, s.most = true, most
	s.greeting.Resolve(struct{}{})
	s.gather()
	s.out = http2.AppendHeader(s.out, http2.SettingsFrame, http2.Ack, 0, 0)
	return http2.NoError
}

// maxStreams is how many streams a connection has at most: where the server takes any number, others
// are still worth a connection of their own.
const maxStreams = 1000

func (s *Session) windowUpdate(h http2.Header, st *Stream, payload []byte) http2.Code {
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
		s.malformed(st, http2.ProtocolError, http2.ProtocolError)
	default:
		if st.window += n; st.window > http2.LargestWindow {
			s.malformed(st, http2.FlowControlError, http2.FlowControlError)
			return http2.NoError
		}
		st.requeue()
	}
	return http2.NoError
}
