package conn

import (
	"bytes"

	"github.com/lwango/lwango/internal/wire/http2"
)

// prioritize acts on a PRIORITY_UPDATE frame, which may come before the request and takes the place
// of its Priority field (RFC 9218 section 7).
func (s *session) prioritize(id uint32, value []byte) http2.Code {
	switch st := s.find(id); {
	case st != nil:
		s.SetRank(&st.Sender, http2.RankOf(value))
	case id%2 == 0:
		return http2.ProtocolError
	case id > s.last:
		if s.early == nil {
			s.early = new([8]earlyRank)
		}
		s.early[s.earlyCount%len(s.early)] = earlyRank{id, http2.RankOf(value)}
		s.earlyCount++
	}
	return http2.NoError
}

// earlyRank is that of a stream which is not open yet.
type earlyRank struct {
	id   uint32
	rank http2.Rank
}

// earlyOf returns what was said of the stream before it was opened.
func (s *session) earlyOf(id uint32) (r http2.Rank, ok bool) {
	if s.earlyCount == 0 {
		return 0, false
	}
	for i := range s.early { // the last one counts
		e := &s.early[(s.earlyCount+len(s.early)-1-i)%len(s.early)]
		if e.id == id {
			return e.rank, true
		}
	}
	return 0, false
}

// sendNow gathers what can go out before all else, and returns the rest.
func (st *h2stream) sendNow(p []byte) []byte {
	s := st.s
	if s.unsent() > 0 {
		return p
	}
	rest := s.SendNow(&st.Sender, p)
	if n := len(p) - len(rest); n > 0 {
		st.moved(n)
		s.wake()
	}
	return rest
}

// Gathered implements http2.Owner.
func (st *h2stream) Gathered(n int) {
	st.moved(n)
	st.keepsWaiting()
	if left := len(st.Pending); st.duplexing && 0 < left && left < n &&
		(st.Window <= 0 || st.s.Window <= 0) {
		st.Pending = bytes.Clone(st.Pending) // it may be for long, and is a small part of what was held
	}
	if st.Allowed == 0 {
		st.notify()
	}
}

// moved counts content that the session has taken.
func (st *h2stream) moved(n int) {
	if share := st.s.share; share != nil {
		share.limit.Moved(st.s.port.loop, n)
	}
	if st.conn != nil {
		st.conn.taken += int64(n)
		return
	}
	st.out.Moved(st.s.port.loop, n)
}

// beginHead gathers the beginning of a Headers frame, and returns where it stands.
func (s *session) beginHead(id uint32, flags uint8, status int) (at int) {
	at = s.BeginBlock(id, flags)
	s.Out = http2.AppendStatus(s.Out, status)
	return at
}

// endHead ends the frame that begins at an offset of the output.
func (s *session) endHead(at int) {
	s.EndBlock(at)
	s.wake()
}
