package http2client

import (
	"github.com/lwango/lwango/internal/wire/http2"
)

// Open sends the head of the request, which is text of HTTP/1.1 (see http2.AppendRequest). ends:
// there is nothing behind it. limit is how long the head of an answer may be, in bytes; head says
// that the method is HEAD.
func (st *Stream) Open(text []byte, ends bool, limit int, head bool) {
	s := st.s
	s.idle--
	st.limit, st.head, st.expected = limit, head, -1
	st.ID = s.next
	if s.err != nil {
		st.err = s.err
		return
	}
	if s.gotGoAway {
		st.err = ErrRefused
		return
	}
	s.next += 2
	s.served++
	s.Add(&st.Sender, st)
	flags := uint8(0)
	if ends {
		flags, st.ends, st.sent = http2.EndStream, true, true
	}
	at := s.BeginBlock(st.ID, flags)
	s.Out = http2.AppendRequest(s.Out, text, s.tls != nil)
	s.EndBlock(at)
	s.unwrittenHeads += len(s.Out) - at
	s.wake()
}

// Write sends p, or holds the part for which the server has no room yet. To bound what is held, the
// caller writes no more until Held returns 0. After an error the server takes no more of the
// request, and an answer may still come.
func (st *Stream) Write(p []byte) error {
	if st.err != nil {
		return st.err
	}
	s := st.s
	if s.held.Held() == 0 {
		p = s.SendNow(&st.Sender, p)
	}
	if len(p) > 0 {
		st.room = append(append(st.room[:0], st.Pending...), p...)
		st.Pending = st.room
		s.Allow(&st.Sender, len(st.room))
	}
	s.wake()
	return nil
}

// Held returns how many bytes are held.
func (st *Stream) Held() int { return len(st.Pending) }

// Gathered implements http2.Owner.
func (st *Stream) Gathered(int) {
	if len(st.Pending) == 0 && st.ends {
		st.finish()
	}
	st.user.Layer().NotifyLocal()
}

// End ends the request. fields calls its argument for each field of the trailer section; nil: there
// are none.
func (st *Stream) End(fields func(field func(name, value string))) {
	if st.err != nil || st.ends {
		return
	}
	st.ends = true
	if fields != nil {
		fields(func(name, value string) { st.fields = http2.AppendField(st.fields, name, value) })
	}
	if len(st.Pending) == 0 {
		st.finish()
	}
}

// finish gathers the end of a request.
func (st *Stream) finish() {
	s := st.s
	st.sent = true
	if len(st.fields) > 0 {
		at := s.BeginBlock(st.ID, http2.EndStream)
		s.Out = append(s.Out, st.fields...)
		s.EndBlock(at)
	} else {
		s.Wire.End(&st.Sender)
	}
	if st.complete {
		s.Remove(&st.Sender)
	}
	s.wake()
}
