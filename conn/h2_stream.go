package conn

import (
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// h2stream is a stream of HTTP/2: a green thread without a descriptor, its exchange, and the
// exchange's carrier. Streams are used again, for any session of the same port.
type h2stream struct {
	thread       loop.Thread
	s            *session
	conn         *streamConn // nil: no handler has taken the stream over
	http2.Sender             // of the answer
	x            *exchange   // nil: the handler has handed the stream on
	*activeState             // nil: that, and the stream is idle or was taken over
	err          error       // why nothing can be read or written any more

	body received

	// The answer.
	ended     bool // all of it was gathered
	extended  bool // the request opens a WebSocket (RFC 8441)
	answered  bool // by the head with which it is open
	duplexing bool // then Pending is what is held

	wantsInput, wantsRoom bool // what the thread waits for

	descriptors uint16 // see takeDescriptor
}

// activeState is what a stream needs while its request is served, or the rest of the answer is
// written. Then it is for another stream of the port.
type activeState struct {
	fields http2.Fields // of the request
	// the request is answered with this; nil: with what a handler says
	bad                       *http1.Error
	socket                    *streamSocket // of a handler off the loop that has taken the stream over
	in, out                   stream.Limit  // of the request's content and the answer's,
	reading, writing          stream.Pace   // and theirs
	inputFlight, outputFlight inFlight      // while they wait
	// how much of the next frame has counted as moved, see countPartial
	early   int
	self    [1]loop.Source
	sources []loop.Source
}

// takeActiveState gives the stream what it needs for work.
func (st *h2stream) takeActiveState(p *port) {
	if n := len(p.activeStates); n > 0 && !invariants.Enabled {
		st.activeState, p.activeStates = p.activeStates[n-1], p.activeStates[:n-1]
	} else {
		st.activeState = new(activeState)
	}
	st.self[0] = st
}

// setPaces sets the paces that the client has to keep.
func (st *h2stream) setPaces(set *settings) {
	setPace(&st.reading, set, set.BodyTimeout)
	setPace(&st.writing, set, set.WriteTimeout)
	st.in.SetPace(&st.reading)
	st.out.SetPace(&st.writing)
}

// giveActiveState takes back what takeActiveState has given.
func (st *h2stream) giveActiveState(p *port) {
	w := st.activeState
	w.clear()
	st.activeState = nil
	if len(p.activeStates) < p.mostStreams() {
		p.activeStates = append(p.activeStates, w)
	}
}

// clear makes w ready for another request. It keeps the memory of the fields.
func (w *activeState) clear() {
	invariants.Mangle(w.fields.Buf[:cap(w.fields.Buf)])
	if cap(w.fields.Buf) > keptBuffer {
		w.fields = http2.Fields{}
	}
	w.bad, w.socket = nil, nil
	w.in, w.out, w.reading, w.writing = stream.Limit{}, stream.Limit{}, stream.Pace{}, stream.Pace{}
	w.inputFlight, w.outputFlight, w.early = inFlight{}, inFlight{}, 0
	clear(w.sources[:cap(w.sources)])
}

// received is the content of a request, as far as it has come.
type received struct {
	in       http2.Inbox
	ended    bool  // there is no more to come
	expected int64 // by Content-Length; -1: unknown
	flow     http2.Inflow
	trailer  *http2.Fields
}

// begin starts the stream's thread on the request.
func (st *h2stream) begin(p *http2.Pseudo, size int, ends bool) {
	s := st.s
	s.Add(&st.Sender, st)
	s.count(1)
	st.setPaces(s.set)
	h := &st.x.req.head
	h.Reset()
	h.FieldLimit = int(s.set.MaxHeaderSize) / bytesPerField
	if st.bad = errHeadTooLarge; !st.fields.TooLarge {
		st.bad = st.fields.Head(h, p, size, !ends)
	}
	st.x.req.raw = st.fields.Buf
	b := &st.body
	if st.extended = p.Protocol.End != 0; st.extended {
		h.ContentLength = 0
	}
	b.ended, b.expected, b.flow = ends, h.ContentLength, http2.Inflow{Size: ownWindow,
		Window: ownWindow}
	if !ends {
		s.uploads(!st.extended && (b.expected < 0 || b.expected > ownWindow))
	}
	if st.extended {
		b.expected = -1
	}
	if r, ok := s.earlyOf(st.ID); ok {
		s.SetRank(&st.Sender, r)
	} else if v := st.fields.Priority.Of(st.fields.Buf); len(v) > 0 {
		s.SetRank(&st.Sender, http2.RankOf(v))
	}
	s.port.loop.Layer().Begin(&st.thread, st)
}

// Run implements loop.Task: it serves the request.
func (st *h2stream) Run(t *loop.Thread) coro.Code {
	defer func() { // also when a handler ends its goroutine, or the thread is killed
		if o := ownerOf(t); o != nil {
			leave(o, t)
		} else {
			st.leave(t)
		}
	}()
	x, s := st.x, st.s
	x.c, x.via, x.set, x.protocol = s.connection, st, s.set, "HTTP/2.0"
	x.begin(t)
	if st.err != nil {
		return coro.Abort
	}
	if st.body.ended && st.body.expected > 0 { // the head has announced content, and ended the stream
		st.reset(http2.ProtocolError)
		return coro.Abort
	}
	if st.bad != nil {
		x.resp.finish(st.bad.Status)
	} else {
		if p := s.port.proxies(s.set); p != nil {
			x.req.applyForwarded(p)
		}
		x.answer()
	}
	if o := ownerOf(t); o != nil {
		return o.Run(t)
	}
	x.completed()
	if st.socket != nil {
		st.socket.run(t)
	}
	if x.fullLog != nil {
		s.fullLog, x.fullLog = x.fullLog, nil
	}
	if st.conn == nil && st.halfClosedLocal() {
		if x.req.body.ask && !st.arrived() { // the client waits with the body, which nobody wants
			st.reset(http2.NoError)
		} else {
			s.drain(st)
		}
	}
	return coro.Abort
}

// leave ends the use of the exchange. Ended closes the stream.
func (st *h2stream) leave(t *loop.Thread) {
	t.RunDeferred(0)
	x := st.x
	if x == nil {
		return
	}
	if t.Layer().AbandonCalls() {
		x.abandon()
		return
	}
	x.end()
}

// ClientGone implements loop.Task. It cancels the context of the request: the client has left.
func (st *h2stream) ClientGone() {
	if a := st.x.resp.tap; a != nil && a.leave() {
		return
	}
	st.x.canceled(loop.ErrClientGone)
}

// Ended implements loop.Task: it closes the stream, whose thread may have been killed before it
// ran, or in a deferred call.
func (st *h2stream) Ended() {
	s := st.s
	if st.conn != nil {
		s.port.stats.Tunnels--
		if st.halfClosedLocal() { // release has ended this half, perhaps just now
			s.drain(st)
		}
	}
	if !st.ended && st.err == nil {
		st.reset(http2.InternalError)
	}
	s.forget(st)
	st.giveDescriptors(int(st.descriptors))
	s.count(-1)
	if st.err == nil {
		s.Refund(http2.StreamRefund)
	}
	s.port.freeStream(st)
	s.wake()
}

// count counts streams whose threads have not ended.
func (s *session) count(n int) {
	t := s.port.stats
	was := s.active
	s.active += n
	t.Streams += int64(n)
	switch {
	case was == 0:
		t.AtWork++
	case s.active == 0:
		t.AtWork--
		s.idleFrom = max(s.Loop().Layer().Clock(s.Loop().Time()), 1)
	}
}

// Flush is an optional method of a loop.Task. The session sends what was gathered in any case.
func (st *h2stream) Flush() {}

// Client is an optional method of a loop.Task.
func (st *h2stream) Client() netip.Addr {
	if st.x != nil && st.x.req.client.IsValid() {
		return st.x.req.client.Addr()
	}
	return st.s.remote.addrPort().Addr()
}

// exchange implements record.
func (st *h2stream) exchange() *exchange {
	if st.conn != nil {
		return nil
	}
	return st.x
}

// Describe says what the stream's thread does, for a dump of threads.
func (st *h2stream) Describe() string {
	return fmt.Sprintf("client %s, HTTP/2 stream %d, %s",
		st.s.remote.addrPort(), st.ID, st.x.summary())
}

func (st *h2stream) server() *Server { return st.s.port.server }

func (st *h2stream) failed(what string, args ...any) {
	if st.x == nil { // the request is over
		st.s.set.Logger.Error(what, append(args, "remote", st.s.remote.addrPort())...)
		return
	}
	st.s.set.Logger.Error(what, append(st.x.about(args...), "remote", st.x.req.RemoteAddr())...)
}

// left tells the stream that the client does not want it any more.
func (st *h2stream) left(err error) {
	if st.err == nil {
		st.err = err
	}
	st.thread.Layer().SetClientGone()
	st.notify()
}

// errReset is the error of reads and writes on a stream that the client, or a mistake of it, has
// ended.
var errReset = errors.New("stream reset")

// notify lets the threads that wait for the stream look whether they can go on.
func (st *h2stream) notify() {
	if st.conn != nil {
		st.conn.notify()
	} else {
		st.thread.Layer().NotifyLocal()
	}
}

// Watch, Ready and Unwatch make the stream a loop.Source for its own thread, which waits for what
// wants says.
func (st *h2stream) Watch(*loop.Thread) error { return nil }

// Ready implements loop.Source.
func (st *h2stream) Ready() bool { return st.ready() }

// Unwatch implements loop.Source.
func (st *h2stream) Unwatch(*loop.Thread) {}

func (st *h2stream) ready() bool {
	return st.err != nil || st.wantsInput && st.readable() || st.wantsRoom && st.Allowed == 0
}

func (st *h2stream) readable() bool {
	return st.body.in.Len() > 0 || st.body.ended
}

// reset ends the stream with an error that is not the client's.
func (st *h2stream) reset(code http2.Code) {
	s := st.s
	if st.IsOpen() && s.err == nil {
		s.Reset(st.ID, code)
		s.ignoreRest(st)
		s.forget(st)
		s.wake()
	}
	if st.err == nil {
		st.err = errReset
	}
}

// got takes content that has come, and padding of so many bytes.
func (st *h2stream) got(content []byte, padding int, ends bool) {
	b := &st.body
	b.in.Add(content)
	st.s.unread += int64(len(content))
	b.ended = ends
	if st.conn == nil && st.activeState != nil {
		st.in.Moved(st.s.port.loop, len(content)-min(st.early, len(content)))
		st.inputFlight, st.early = inFlight{}, 0
	}
	if padding > 0 {
		st.s.dropped(padding)
		st.returnCredit(padding)
	}
	st.notify()
}

// readBody implements carrier.
func (st *h2stream) readBody(p []byte, wait bool) (int, error) {
	b := &st.body
	for b.in.Len() == 0 {
		switch {
		case b.ended:
			return 0, io.EOF
		case st.err != nil:
			return 0, io.ErrUnexpectedEOF
		case !wait:
			return 0, st.wouldBlock()
		}
		if err := st.awaitBody(true); err != nil {
			return 0, err
		}
	}
	n := b.in.Read(p)
	st.consumed(n)
	st.spend(n)
	if b.ended && b.in.Len() == 0 {
		return n, io.EOF
	}
	return n, nil
}

// awaitBody implements carrier.
func (st *h2stream) awaitBody(wait bool) error {
	switch {
	case st.body.in.Len() > 0:
		return nil
	case st.body.ended:
		return io.EOF
	case st.err != nil:
		return io.ErrUnexpectedEOF
	case !wait:
		return st.wouldBlock()
	}
	err := st.wait(true, false)
	switch {
	case err != nil:
		return tooSlowBody(err)
	case st.err != nil && st.body.in.Len() == 0:
		return io.ErrUnexpectedEOF
	case st.body.in.Len() == 0 && st.body.ended:
		return io.EOF
	}
	return nil
}

// arrived implements carrier.
func (st *h2stream) arrived() bool { return st.body.in.Len() > 0 }

// readExpired implements carrier.
func (st *h2stream) readExpired() bool {
	return st.in.Expired(st.thread.Loop())
}

// keepTrailer implements carrier. It may have come already, so it is kept in any case.
func (st *h2stream) keepTrailer() {}

// trailer implements carrier.
func (st *h2stream) trailer(f func(name, value []byte)) {
	if t := st.body.trailer; t != nil {
		t.Each(f)
	}
}
