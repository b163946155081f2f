package conn

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/http2"
	"github.com/lwango/lwango/internal/invariants"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// h2stream is a stream of HTTP/2: a green thread without a descriptor, its exchange, and the
// exchange's carrier. Streams are used again, for any session of the same port.
type h2stream struct {
	thread loop.Thread
	s      *session
	id     uint32
	at     int // its place among the session's open streams; -1: none
	x      exchange
	fields http2.Fields // of the request
	bad    *http1.Error // the request is answered with this; nil: with what a handler says
	err    error        // why nothing can be read or written any more
	self   [1]loop.Source

	body received

	// The answer.
	window     int64 // how much the client takes of it
	ended      bool  // all of it was gathered
	urgency    uint8
	inQueue    bool
	duplexing  bool
	pending    []byte // content that waits for the session; of a Duplex, what is held
	next, prev *h2stream
	lastFrame  int  // where the head of its last Data frame stands in the session's output,
	lastBatch  uint // if that is still the same

	wantsInput, wantsRoom bool // what the thread waits for
	in, out               stream.Limit
	reading, writing      stream.Pace // theirs
	allowed               int         // of pending, with MaxRate
	sources               []loop.Source
}

// received is the content of a request, as far as it has come.
type received struct {
	buf      []byte // buf[r:] was not read yet
	r        int
	ended    bool  // there is no more to come
	expected int64 // by Content-Length; -1: unknown
	credit   int64 // how much the client may still send
	returned int64 // what was read of that and not announced yet
	trailer  *http2.Fields
}

// newStream returns a stream for a request of s.
func (p *port) newStream(s *session, id uint32) *h2stream {
	var st *h2stream
	if n := len(p.streams); n > 0 && !invariants.Enabled {
		st, p.streams = p.streams[n-1], p.streams[:n-1]
	} else {
		st = new(h2stream)
		st.x.rest()
		st.self[0] = st
	}
	st.s, st.id, st.at, st.window = s, id, -1, s.newWindow
	st.urgency = defaultUrgency
	return st
}

// maxFreeStreams is how many streams a port keeps for later requests.
const maxFreeStreams = 1024

// freeStream keeps st for a later request, unless a function off the loop may still hold it.
func (p *port) freeStream(st *h2stream) {
	if st.x.via != nil && st.x.via != noRequest {
		st.x.rest()
	}
	fields := st.fields
	if cap(fields.Buf) > keptBuffer {
		fields = http2.Fields{}
	}
	x := &st.x
	st.s, st.bad, st.err, st.ended, st.inQueue, st.duplexing = nil, nil, nil, false, false, false
	st.pending, st.next, st.prev, st.body = nil, nil, nil, received{}
	st.in, st.out, st.reading, st.writing, st.allowed = stream.Limit{}, stream.Limit{}, stream.Pace{}, stream.Pace{}, 0
	st.lastBatch = 0
	st.fields = fields
	invariants.Mangle(st.fields.Buf[:cap(st.fields.Buf)])
	if len(p.streams) < maxFreeStreams && x.req.Thread == nil {
		p.streams = append(p.streams, st)
	}
}

// begin starts the stream's thread on the request.
func (st *h2stream) begin(p *http2.Pseudo, size int, ends bool) {
	s := st.s
	s.add(st)
	s.active++
	setPace(&st.reading, s.set, s.set.BodyTimeout)
	setPace(&st.writing, s.set, s.set.WriteTimeout)
	st.in.SetPace(&st.reading)
	st.out.SetPace(&st.writing)
	h := &st.x.req.head
	h.Reset()
	h.FieldLimit = s.set.MaxHeaderSize / bytesPerField
	if st.bad = errHeadTooLarge; !st.fields.Over {
		st.bad = st.fields.Head(h, p, size, !ends)
	}
	st.x.req.raw = st.fields.Buf
	st.body.ended, st.body.credit, st.body.expected = ends, ownWindow, h.ContentLength
	if v, ok := h.Get(st.fields.Buf, "priority"); ok {
		st.prioritize(v)
	}
	s.port.loop.Begin(&st.thread, st)
}

// Run implements loop.Body: it serves the request.
func (st *h2stream) Run(t *loop.Thread) coro.Code {
	defer st.leave(t) // also when a handler ends its goroutine, or the thread is killed
	x, s := &st.x, st.s
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
			x.req.believe(p)
		}
		x.answer()
	}
	x.completed()
	if st.err == nil && st.at >= 0 && !st.body.ended {
		// The rest of the body is not wanted (RFC 9113 section 8.1).
		st.flushEnd()
		s.out = http2.AppendReset(s.out, st.id, http2.NoError)
	}
	return coro.Abort
}

// leave ends the use of the exchange, and closes the stream.
func (st *h2stream) leave(t *loop.Thread) {
	s, x := st.s, &st.x
	defer func() {
		if !st.ended && st.err == nil {
			st.reset(http2.InternalError)
		}
		s.forget(st)
		s.wake()
	}()
	t.RunDeferred(0)
	if loop.Stranded(t) {
		x.strand()
		return
	}
	x.end()
}

// Left implements loop.Body.
func (st *h2stream) Left() { st.x.canceled(loop.ErrClientGone) }

// Ended implements loop.Body.
func (st *h2stream) Ended() {
	s := st.s
	s.active--
	if s.resets > 0 && st.err == nil {
		s.resets--
	}
	s.port.freeStream(st)
	s.wake()
}

// Flush implements loop.Holder. The session sends what was gathered in any case.
func (st *h2stream) Flush() {}

// Client implements loop.Client.
func (st *h2stream) Client() netip.Addr {
	if st.x.req.client.IsValid() {
		return st.x.req.client.Addr()
	}
	return st.s.remote.addrPort().Addr()
}

// exchange implements record.
func (st *h2stream) exchange() *exchange { return &st.x }

func (st *h2stream) server() *Server { return st.s.port.server }

func (st *h2stream) failed(what string, args ...any) {
	r := &st.x.req
	st.s.set.Logger.Error(what, append(args,
		"request_id", r.ID(), "target", r.Target(), "remote", r.RemoteAddr())...)
}

// left tells the stream that the client does not want it any more.
func (st *h2stream) left(err error) {
	if st.err == nil {
		st.err = err
	}
	loop.Leave(&st.thread)
	st.notify()
}

// errReset is the error of reads and writes on a stream that the client, or a mistake of it, has
// ended.
var errReset = errors.New("stream reset")

// notify lets the thread look whether it can go on.
func (st *h2stream) notify() { loop.Nudge(&st.thread) }

// Watch, Ready and Unwatch make the stream a loop.Source for its own thread, which waits for what
// wants says.
func (st *h2stream) Watch(*loop.Thread) error { return nil }

// Ready implements loop.Source.
func (st *h2stream) Ready() bool { return st.ready() }

// Unwatch implements loop.Source.
func (st *h2stream) Unwatch(*loop.Thread) {}

func (st *h2stream) ready() bool {
	return st.err != nil || st.wantsInput && st.readable() || st.wantsRoom && st.allowed == 0
}

func (st *h2stream) readable() bool {
	return st.body.r < len(st.body.buf) || st.body.ended
}

// reset ends the stream with an error that is not the client's.
func (st *h2stream) reset(code http2.Code) {
	s := st.s
	if st.at >= 0 && s.err == nil {
		st.flushEnd()
		s.out = http2.AppendReset(s.out, st.id, code)
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
	if b.r == len(b.buf) {
		b.buf, b.r = b.buf[:0], 0
	}
	b.buf = append(b.buf, content...)
	b.ended = ends
	if padding > 0 {
		st.consumed(padding)
	}
	st.notify()
}

// consumed gives the client credit for what was read.
func (st *h2stream) consumed(n int) {
	s, b := st.s, &st.body
	s.unread(n)
	if b.returned += int64(n); b.returned >= ownWindow/2 && !b.ended && s.err == nil && st.err == nil {
		s.out = http2.AppendWindowUpdate(s.out, st.id, uint32(b.returned))
		b.credit, b.returned = b.credit+b.returned, 0
		s.wake()
	}
}

// wait waits for what ready says, as long as the client keeps the limit.
func (st *h2stream) wait(l *stream.Limit, input, room bool) error {
	t := &st.thread
	left, err := l.Left(t.Loop())
	if err != nil {
		return err
	}
	st.wantsInput, st.wantsRoom = input, room
	defer func() { st.wantsInput, st.wantsRoom = false, false }()
	before := t.Loop().Clock(time.Now())
	was := t.KeepWaiting(true) // what ends the wait is st.err
	_, err = t.AwaitAny(left, st.self[:]...)
	t.KeepWaiting(was)
	l.Waited(t.Loop().Clock(time.Now()) - before)
	if errors.Is(err, loop.ErrDeadlineExceeded) {
		_, err = l.Left(t.Loop()) // the limit's own, unless something has moved meanwhile
	}
	return err
}

// readBody implements carrier.
func (st *h2stream) readBody(p []byte, wait bool) (int, error) {
	b := &st.body
	for b.r == len(b.buf) {
		switch {
		case b.ended:
			return 0, io.EOF
		case st.err != nil:
			return 0, io.ErrUnexpectedEOF
		case !wait:
			return 0, stream.ErrWouldBlock
		}
		if err := st.awaitBody(true); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.buf[b.r:])
	if b.r += n; b.r == len(b.buf) {
		b.r = 0
		if b.buf = b.buf[:0]; cap(b.buf) > keptBuffer || b.ended {
			b.buf = nil
		}
	}
	st.in.Moved(st.thread.Loop(), n)
	st.consumed(n)
	st.spend(n)
	if b.ended && b.r == len(b.buf) {
		return n, io.EOF
	}
	return n, nil
}

// awaitBody implements carrier.
func (st *h2stream) awaitBody(wait bool) error {
	switch {
	case st.readable() && st.body.r < len(st.body.buf):
		return nil
	case st.body.ended:
		return io.EOF
	case st.err != nil:
		return io.ErrUnexpectedEOF
	case !wait:
		return stream.ErrWouldBlock
	}
	err := st.wait(&st.in, true, false)
	switch {
	case err == stream.ErrTooSlow:
		return ErrBodyTimeout
	case err != nil:
		return err
	case st.err != nil && st.body.r == len(st.body.buf):
		return io.ErrUnexpectedEOF
	case st.body.r == len(st.body.buf) && st.body.ended:
		return io.EOF
	}
	return nil
}

// arrived implements carrier.
func (st *h2stream) arrived() bool { return st.body.r < len(st.body.buf) }

// readExpired implements carrier.
func (st *h2stream) readExpired() bool {
	return st.in.Expired(st.thread.Loop())
}

// keepTrailer implements carrier. It may have come already, so it is kept in any case.
func (st *h2stream) keepTrailer() {}

// trailer implements carrier.
func (st *h2stream) trailer(f func(name, value []byte)) {
	if t := st.body.trailer; t != nil {
		for _, field := range t.List {
			f(field.Name.Of(t.Buf), field.Value.Of(t.Buf))
		}
	}
}

// interim implements carrier.
func (st *h2stream) interim(status int, fields []Field) {
	if st.err != nil {
		return
	}
	s := st.s
	at := s.beginHead(st.id, 0, status)
	for _, f := range fields {
		if !http1.Framing(f.Name) && http1.ValidToken(f.Name) && http1.ValidFieldValue(f.Value) {
			s.out = http2.AppendField(s.out, f.Name, f.Value)
		}
	}
	s.endHead(at)
}

// head implements carrier.
func (st *h2stream) head(p *plan) {
	if st.err != nil {
		return
	}
	s := st.s
	flags := uint8(0)
	if p.bare || p.extent == byLength && p.length == 0 {
		flags, st.ended = http2.EndStream, true
	}
	at := s.beginHead(st.id, flags, p.status)
	port, set := s.port, s.set
	port.refresh(set)
	if !p.overridden {
		s.out = append(s.out, port.encoded...)
	} else {
		if !p.dated {
			s.out = append(s.out, port.encodedDate...)
		}
		for _, f := range set.Headers {
			if !has(p.fields, f.Name) && http1.ValidToken(f.Name) && http1.ValidFieldValue(f.Value) {
				s.out = http2.AppendField(s.out, f.Name, f.Value)
			}
		}
	}
	for i := range p.fields {
		f := &p.fields[i]
		if ofServer(f.Name) || ascii.EqualFold(f.Name, "Upgrade") || ascii.EqualFold(f.Name, "Proxy-Connection") ||
			!p.dated && ascii.EqualFold(f.Name, "Date") {
			continue
		}
		s.out = http2.AppendField(s.out, f.Name, f.Value)
	}
	if p.contentType != "" {
		s.out = http2.AppendField(s.out, "Content-Type", p.contentType)
	}
	if p.extent == byLength {
		s.out = http2.AppendLength(s.out, p.length)
	}
	s.endHead(at)
}

// data implements carrier.
func (st *h2stream) data(p []byte) error {
	s := st.s
	if st.ended || st.err != nil {
		return st.err
	}
	if st.duplexing {
		if len(st.pending) == 0 && st.writing.MaxRate <= 0 {
			p = st.sendNow(p)
		}
		st.pending = append(st.pending, p...)
		st.allow()
		return nil
	}
	for len(p) > 0 && st.err == nil {
		piece := p
		if st.writing.MaxRate > 0 {
			if pause := st.out.Pause(s.port.loop); pause > 0 {
				st.sleep(pause)
				continue
			}
			piece = p[:min(len(p), st.out.Piece())]
		}
		p = p[len(piece):]
		if piece = st.sendNow(piece); len(piece) > 0 {
			st.pending = piece
			st.allow()
			if err := st.awaitSent(); err != nil {
				return err
			}
		}
	}
	return st.err
}

// sendNow gathers what can go out before all else, and returns the rest.
func (st *h2stream) sendNow(p []byte) []byte {
	for s := st.s; len(p) > 0 && s.quick(st); {
		n := int(min(int64(len(p)), int64(s.frame), st.window, s.window))
		s.frameOf(st, p[:n])
		p = p[n:]
	}
	return p
}

// allow queues what is pending, as far as MaxRate lets it.
func (st *h2stream) allow() {
	st.allowed = len(st.pending)
	if st.duplexing && st.writing.MaxRate > 0 {
		if st.allowed = 0; st.out.Pause(st.s.port.loop) == 0 {
			st.allowed = min(len(st.pending), st.out.Piece())
		}
	}
	st.requeue()
	st.s.wake()
}

// sleep lets the thread sleep because of MaxRate. If the client resets the stream meanwhile, the
// next write returns the error.
func (st *h2stream) sleep(d time.Duration) {
	was := st.thread.KeepWaiting(true)
	_ = st.thread.Sleep(d)
	st.thread.KeepWaiting(was)
}

// awaitSent waits until the session has taken what is pending.
func (st *h2stream) awaitSent() error {
	for len(st.pending) > 0 && st.err == nil {
		if pause := st.out.Pause(st.s.port.loop); st.allowed == 0 && pause > 0 {
			st.sleep(pause)
		} else if err := st.wait(&st.out, false, true); err != nil {
			st.tooSlow(err)
		}
		if st.allowed == 0 && len(st.pending) > 0 {
			st.allow()
		}
	}
	return st.err
}

// tooSlow ends the stream of a client that does not take what is sent.
func (st *h2stream) tooSlow(err error) {
	st.unqueue()
	st.pending, st.allowed = nil, 0
	st.reset(http2.Cancel)
	st.err = err
	st.x.canceled(loop.ErrClientGone)
}

// file implements carrier.
func (st *h2stream) file(f File, off, n int64) error {
	r := newFileReader(&st.thread, f, off, n)
	buf := buffers.Get().(*[streamAt]byte)
	defer buffers.Put(buf)
	for n > 0 {
		k, err := r.Read(buf[:min(n, int64(len(buf)))])
		if k > 0 {
			if err := st.data(buf[:k]); err != nil {
				return err
			}
			n -= int64(k)
			st.spend(k)
		}
		if err != nil && n > 0 {
			if err == io.EOF {
				err = errShortBody
			}
			return st.abort(err)
		}
	}
	return nil
}

// end implements carrier.
func (st *h2stream) end(trailer []Field) {
	if st.ended || st.err != nil {
		return
	}
	s := st.s
	if len(st.pending) > 0 { // a Duplex that ends writes it
		return
	}
	st.ended = true
	if len(trailer) > 0 {
		at := s.beginBlock(st.id, http2.EndStream)
		for _, f := range trailer {
			s.out = http2.AppendField(s.out, f.Name, f.Value)
		}
		s.endHead(at)
		return
	}
	if st.lastBatch == s.batch && st.lastBatch != 0 { // its last frame has not gone out
		s.out[st.lastFrame+4] |= http2.EndStream
		return
	}
	s.out = http2.AppendHeader(s.out, http2.Data, http2.EndStream, st.id, 0)
	s.wake()
}

// flushEnd makes sure that nothing of the stream is queued.
func (st *h2stream) flushEnd() { st.unqueue() }

// flush implements carrier.
func (st *h2stream) flush() error {
	st.s.wake()
	return st.err
}

// abort implements carrier.
func (st *h2stream) abort(err error) error {
	if st.err == nil {
		st.reset(http2.InternalError)
		st.err = err
	}
	return st.err
}

// writeError implements carrier.
func (st *h2stream) writeError() error { return st.err }

// sent implements carrier.
func (st *h2stream) sent(n int64) int64 { return max(n-int64(len(st.pending)), 0) }

// setReadDeadline implements carrier.
func (st *h2stream) setReadDeadline(by time.Time) { st.in.SetDeadline(st.thread.Loop(), by) }

// setWriteDeadline implements carrier.
func (st *h2stream) setWriteDeadline(by time.Time) { st.out.SetDeadline(st.thread.Loop(), by) }

// setMinRate implements carrier.
func (st *h2stream) setMinRate(n int) { st.writing.MinRate = max(st.s.set.MinRate, n) }

// setMaxRate implements carrier.
func (st *h2stream) setMaxRate(n int64) (was int64) {
	was, st.writing.MaxRate = st.writing.MaxRate, n
	return was
}

// spend implements carrier.
func (st *h2stream) spend(n int) { st.s.stream.SpendOn(n) }

// slim implements carrier.
func (st *h2stream) slim() {}

// beginDuplex implements carrier.
func (st *h2stream) beginDuplex() { st.duplexing = true }

// endDuplex implements carrier.
func (st *h2stream) endDuplex() {
	st.duplexing = false
	_ = st.awaitSent()
}

// dropDuplex implements carrier.
func (st *h2stream) dropDuplex() {
	st.duplexing = false
	if len(st.pending) > 0 {
		st.unqueue()
		st.pending = nil
		st.reset(http2.InternalError)
	}
}

// held implements carrier.
func (st *h2stream) held() int { return len(st.pending) }

// sendHeld implements carrier. The session sends what is held by itself.
func (st *h2stream) sendHeld() (int, error) {
	if st.err == nil && len(st.pending) > 0 {
		if _, err := st.out.Left(st.s.port.loop); err != nil {
			st.tooSlow(err)
		} else if st.allowed == 0 {
			st.allow()
		}
	}
	return len(st.pending), st.err
}

// awaitDuplex implements carrier.
func (st *h2stream) awaitDuplex(limit time.Duration, read bool, sources []loop.Source) error {
	lp := st.thread.Loop()
	least, room := limit, len(st.pending) > 0
	if pause := st.out.Pause(lp); room && st.allowed == 0 && pause > 0 {
		least, room = shorter(least, pause), false // room is not what it waits for
	}
	for _, w := range []struct {
		wanted bool
		l      *stream.Limit
	}{{read, &st.in}, {room, &st.out}} {
		if !w.wanted {
			continue
		}
		left, err := w.l.Left(lp)
		if err != nil {
			return nil
		}
		least = shorter(least, left)
	}
	st.wantsInput, st.wantsRoom = read, room
	defer func() { st.wantsInput, st.wantsRoom = false, false }()
	st.sources = append(append(st.sources[:0], sources...), st.self[0])
	before := lp.Clock(time.Now())
	_, err := st.thread.AwaitAny(least, st.sources...)
	waited := lp.Clock(time.Now()) - before
	if read {
		st.in.Waited(waited)
	}
	if room {
		st.out.Waited(waited)
	}
	if errors.Is(err, loop.ErrDeadlineExceeded) && least != limit {
		return nil
	}
	return err
}

// shorter returns the shorter of two limits; negative: none.
func shorter(a, b time.Duration) time.Duration {
	if a < 0 || 0 <= b && b < a {
		return b
	}
	return a
}

// upgrade implements carrier.
func (st *h2stream) upgrade(*plan) {}

// hijack implements carrier.
func (st *h2stream) hijack() (net.Conn, *bufio.Reader, error) { return nil, nil, errNoHijack }

// detach implements carrier.
func (st *h2stream) detach() (net.Conn, *bufio.Reader, error) { return nil, nil, errNoHijack }

var errNoHijack = errors.New("conn: a stream of HTTP/2 has no connection to take over")
