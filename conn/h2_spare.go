package conn

import (
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/wire/http2"
)

// spareStreams is what a port has for the requests of HTTP/2 to come.
type spareStreams struct {
	sessions     int            // connections of HTTP/2, which there are now
	streams      []*h2stream    // that no request uses
	activeStates []*activeState // of streams that need none at present
}

// newStream returns a stream for a request of s.
func (p *port) newStream(s *session, id uint32) *h2stream {
	var st *h2stream
	if n := len(p.streams); n > 0 && !invariants.Enabled {
		st, p.streams = p.streams[n-1], p.streams[:n-1]
	} else {
		st = new(h2stream)
	}
	if st.activeState == nil {
		st.takeActiveState(p)
	}
	if st.x == nil {
		st.x = newExchange()
	}
	st.s, st.ID = s, id
	return st
}

// maxFreeStreams is how many streams a port keeps for later requests, and fewStreams how many of
// them without a session: what a burst has left would stay for good.
const (
	maxFreeStreams = 1024
	fewStreams     = 16
)

// mostStreams returns how many streams are kept.
func (p *port) mostStreams() int {
	if p.sessions == 0 {
		return fewStreams
	}
	return maxFreeStreams
}

// trimStreams drops what is not kept without a session.
func (p *port) trimStreams() {
	if n := fewStreams; len(p.streams) > n {
		p.streams = append([]*h2stream(nil), p.streams[:n]...)
	}
	if n := fewStreams; len(p.activeStates) > n {
		p.activeStates = append([]*activeState(nil), p.activeStates[:n]...)
	}
}

// freeStream keeps st for a later request, unless a function off the loop may still hold it.
func (p *port) freeStream(st *h2stream) {
	x := st.x
	if x != nil && x.via != noRequest {
		x.clear()
	}
	st.s, st.err, st.ended, st.duplexing = nil, nil, false, false
	st.Sender, st.body = http2.Sender{}, received{}
	st.conn, st.extended, st.answered = nil, false, false
	st.thread.Layer().SetTask(st) // what a takeover has held, such as a context, goes with it
	if x != nil && x.req.Thread != nil {
		return // it reads the request's bytes
	}
	if st.activeState != nil {
		st.activeState.clear()
	}
	if len(p.streams) < p.mostStreams() {
		p.streams = append(p.streams, st)
	}
}
