package http2client

import (
	"fmt"

	"github.com/lwango/lwango/internal/wire/http2"
)

// frames acts on the frames that have come as a whole. A code other than NoError ends the
// connection.
func (s *Session) frames() http2.Code {
	now := s.thread.Loop().Time().Unix()
	for {
		h, payload, ok, code := s.Next(now, s.unwritten())
		if !ok {
			return code
		}
		s.lastFrame, s.pingPending = s.now(), false
		if code := s.act(h, payload); code != http2.NoError {
			return code
		}
	}
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
	case http2.Headers, http2.Continuation:
		return s.block(h, st, payload)
	case http2.RSTStream:
		if st != nil {
			s.resetByServer(st, http2.Code(http2.Uint32(payload)))
		}
	case http2.SettingsFrame:
		return s.settings(h, payload)
	case http2.PushPromise:
		return http2.ProtocolError
	case http2.Ping:
		if h.Flags&http2.Ack == 0 {
			s.Ping(http2.Ack, string(payload))
			s.lastServerPing = max(s.now(), 1)
		}
	case http2.GoAway:
		s.goAway(http2.Uint32(payload)&^(1<<31), http2.Code(http2.Uint32(payload[4:])))
	case http2.WindowUpdate:
		var sender *http2.Sender
		if st != nil {
			sender = &st.Sender
		}
		code := s.WindowUpdate(h, sender, payload)
		if code == http2.NoError || st == nil {
			return code
		}
		s.malformed(st, code, code)
	}
	return http2.NoError
}

// find returns the open stream of that number, nil if there is none.
func (s *Session) find(id uint32) *Stream {
	if sender := s.Find(id); sender != nil {
		return streamOf(sender)
	}
	return nil
}

// streamOf returns the stream that sends by it.
func streamOf(sender *http2.Sender) *Stream { return sender.Owner.(*Stream) }

// reset closes a stream. What is on its way to it may still come.
func (s *Session) reset(st *Stream, code http2.Code) {
	s.Reset(st.ID, code)
	if !st.complete {
		s.lateContent += max(st.flow.Window, 0)
	}
	s.Remove(&st.Sender)
}

// malformed ends a stream because of a mistake in the answer.
func (s *Session) malformed(st *Stream, code http2.Code, err error) {
	s.reset(st, code)
	st.fail(fmt.Errorf("%w: %w", ErrMalformed, err))
}

// begun reports that part of an answer has come. A server that says afterwards that it has not
// acted on the request cannot be believed.
func (st *Stream) begun() bool { return st.final || st.interim > 0 }

// resetByServer acts on a RST_STREAM of the server.
func (s *Session) resetByServer(st *Stream, code http2.Code) {
	s.Remove(&st.Sender)
	if code == http2.RefusedStream && !st.begun() {
		st.fail(fmt.Errorf("%w: %v", ErrRefused, code))
	} else {
		st.fail(resetError(code))
	}
}

// goAway acts on a GOAWAY: the server has not acted on the streams beyond last, and will not.
func (s *Session) goAway(last uint32, code http2.Code) {
	s.gotGoAway = true
	s.stopStreams()
	for i := len(s.Open) - 1; i >= 0; i-- { // Remove fills a place from the end
		if st := streamOf(s.Open[i]); st.ID > last {
			s.Remove(&st.Sender)
			if st.begun() {
				st.fail(fmt.Errorf("GOAWAY within the answer: %w", code))
			} else {
				st.fail(fmt.Errorf("%w: GOAWAY: %v", ErrRefused, code))
			}
		}
	}
}

// block acts on a Headers or Continuation frame.
func (s *Session) block(h http2.Header, st *Stream, payload []byte) http2.Code {
	limit := headerList
	if st != nil {
		limit = st.limit
	}
	if h.Type == http2.Headers {
		s.blockFrom = s.now()
	}
	block, whole, code := s.Block.Add(h, payload, limit)
	if !whole {
		return code
	}
	return s.fields(st, s.Block.Ends, block)
}

// fields acts on a whole field block; st is nil if its stream is closed.
func (s *Session) fields(st *Stream, ends bool, block []byte) http2.Code {
	if st == nil || st.complete {
		var dropped http2.Fields // the table has to follow
		if s.Decode(block, &dropped) != nil {
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
	if s.Decode(block, &h.Fields) != nil {
		st.dropHead()
		return http2.CompressionError
	}
	var ok bool
	switch h.Status, h.Length, ok = h.Response(); {
	case h.TooLarge:
		s.failHead(st, errHeadSize)
	case !ok, h.Status < 200 && (ends || h.Length > 0):
		s.failHead(st, errFields)
	case h.Status < 200:
		st.interim++
		// Those that were not taken yet are held.
		if st.interim > maxInterim || len(st.heads)-st.taken > maxHeld && st.limit > headerList {
			s.failHead(st, errInterim)
		}
	default:
		st.final, s.noAnswerSince = true, false
		s.Refund(http2.DataRefund)
		if st.expected = h.Length; st.head || h.Status == 204 || h.Status == 304 {
			st.expected = 0
		}
		if ends {
			s.end(st)
		}
	}
	st.user.Layer().NotifyLocal()
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

// failHead ends a stream whose last head is of no use.
func (s *Session) failHead(st *Stream, err error) {
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
	if s.Decode(block, trailer) != nil {
		return http2.CompressionError
	}
	switch {
	case trailer.TooLarge:
		s.malformed(st, http2.ProtocolError, errHeadSize)
	case !ends || !trailer.Trailer():
		s.malformed(st, http2.ProtocolError, errFields)
	default:
		st.trailer = trailer
		s.end(st)
		st.user.Layer().NotifyLocal()
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
	if st.complete = true; st.sent {
		s.Remove(&st.Sender)
	}
}

// data acts on content.
func (s *Session) data(h http2.Header, st *Stream, content []byte) http2.Code {
	n := int64(h.Length)
	if !s.Inflow.Received(n) {
		return http2.FlowControlError
	}
	// What is held is bounded by the streams' windows.
	s.SendWindowUpdate(0, s.Inflow.Return(n, 0))
	if st == nil {
		if s.lateContent -= n; s.lateContent < 0 {
			return http2.StreamClosed
		}
		if n > int64(len(content)) { // also that of padding alone is what the window has let it send
			s.Refund(http2.FrameCost)
		}
		return http2.NoError
	}
	ends := h.Flags&http2.EndStream != 0
	room := st.flow.Received(n)
	switch {
	case st.complete:
		s.reset(st, http2.StreamClosed)
		st.fail(http2.StreamClosed)
		return http2.NoError
	case !room:
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
		s.noAnswerSince = false
		s.Refund(http2.DataRefund)
		st.in.Add(content)
	}
	if ends {
		s.end(st)
	} else if padding := int(n) - len(content); padding > 0 {
		st.widen(padding)
	}
	st.user.Layer().NotifyLocal()
	return http2.NoError
}

// settings acts on the server's settings.
func (s *Session) settings(h http2.Header, payload []byte) http2.Code {
	if h.Flags&http2.Ack != 0 {
		return http2.NoError
	}
	if !s.SettingsReceived {
		s.streamLimit = maxStreams // the protocol has no limit
	}
	code := s.Settings(h, payload, func(setting http2.Setting, value uint32) http2.Code {
		switch setting {
		case http2.EnablePush:
			if value != 0 {
				return http2.ProtocolError
			}
		case http2.MaxConcurrentStreams:
			s.streamLimit = int(min(value, maxStreams))
		}
		return http2.NoError
	})
	if code == http2.NoError {
		s.ready.Resolve(struct{}{})
	}
	return code
}

// maxStreams is how many streams a connection has at most: where the server takes any number,
// others are still worth a connection of their own.
const maxStreams = 1000
