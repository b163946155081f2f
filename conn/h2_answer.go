package conn

import (
	"cmp"
	"io"
	"net/http"
	"time"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// interim implements carrier.
func (st *h2stream) interim(status int, fields []Field) {
	if st.err != nil {
		return
	}
	s := st.s
	at := s.beginHead(st.ID, 0, status)
	for _, f := range fields {
		if !http1.Framing(f.Name) && http1.ValidToken(f.Name) && http1.ValidFieldValue(f.Value) {
			s.Out = http2.AppendField(s.Out, f.Name, f.Value)
		}
	}
	s.endHead(at)
}

// head implements carrier.
func (st *h2stream) head(p *plan) {
	if st.err != nil || st.expired() {
		return
	}
	if st.extended && p.status == http.StatusSwitchingProtocols {
		st.upgrade(p)
		return
	}
	if !st.body.ended {
		st.reading.MinRate = 0 // see turn.head
		st.writing.ResetSilenceOf(&st.reading)
	}
	s := st.s
	flags := uint8(0)
	if p.bare || p.extent == byLength && p.length == 0 {
		flags, st.ended = http2.EndStream, true
	}
	at := s.beginHead(st.ID, flags, p.status)
	port, set := s.port, s.set
	port.refresh(set)
	if !p.overridden {
		standing := port.encoded
		if p.dated {
			standing = standing[len(port.encodedDate):]
		}
		s.Out = append(s.Out, standing...)
	} else {
		if !p.dated {
			s.Out = append(s.Out, port.encodedDate...)
		}
		for _, f := range set.Headers {
			if !has(p.fields, f.Name) && http1.ValidToken(f.Name) && http1.ValidFieldValue(f.Value) {
				s.Out = http2.AppendField(s.Out, f.Name, f.Value)
			}
		}
	}
	for i := range p.fields {
		f := &p.fields[i]
		if ofServer(f.Name) || ascii.EqualFold(f.Name, "Upgrade") ||
			ascii.EqualFold(f.Name, "Proxy-Connection") || !p.dated && ascii.EqualFold(f.Name, "Date") {
			continue
		}
		s.Out = http2.AppendField(s.Out, f.Name, f.Value)
	}
	if p.contentType != "" {
		s.Out = http2.AppendField(s.Out, "Content-Type", p.contentType)
	}
	if p.extent == byLength {
		s.Out = http2.AppendLength(s.Out, p.length)
	}
	s.endHead(at)
}

// upgradeStatus returns the status for an extended CONNECT whose handler answers with another one
// than 101. Any 2xx would open the WebSocket (RFC 8441 section 4): a page that knows nothing of
// WebSockets means none.
func upgradeStatus(status int) int {
	if status/100 == 2 {
		return http.StatusBadRequest
	}
	return status
}

// upgradeStatus is that for a request that may be one.
func (x *exchange) upgradeStatus(status int) int {
	if st := x.via.multiplexed(); st != nil && st.opensWebSocket() {
		return upgradeStatus(status)
	}
	return status
}

// data implements carrier.
func (st *h2stream) data(p []byte) error {
	s := st.s
	if st.ended || st.err != nil || st.expired() {
		return st.err
	}
	if st.duplexing {
		if st.writing.MaxRate <= 0 {
			p = st.sendNow(p)
		}
		st.Pending = append(st.Pending, p...)
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
			st.Pending = piece
			st.allow()
			if err := st.awaitSent(); err != nil {
				return err
			}
		}
	}
	return st.err
}

// allow queues what is pending, as far as MaxRate lets it.
func (st *h2stream) allow() {
	n := len(st.Pending)
	if st.duplexing && st.conn == nil && st.writing.MaxRate > 0 {
		if n = 0; st.out.Pause(st.s.port.loop) == 0 {
			n = min(len(st.Pending), st.out.Piece())
		}
	}
	st.s.Allow(&st.Sender, n)
	st.keepsWaiting()
	st.s.wake()
}

// sleep lets the thread sleep because of MaxRate. If the client resets the stream meanwhile, the
// next write returns the error.
func (st *h2stream) sleep(d time.Duration) {
	t := &st.thread
	was, budget := t.KeepWaiting(true), t.Layer().SetBudget(0)
	despite := t.Layer().WaitDespiteFailures(true)
	_ = t.Sleep(d)
	t.Layer().WaitDespiteFailures(despite)
	t.Layer().SetBudget(budget)
	t.KeepWaiting(was)
}

// awaitSent waits until the session has taken what is pending.
func (st *h2stream) awaitSent() error {
	for len(st.Pending) > 0 && st.err == nil {
		if pause := st.out.Pause(st.s.port.loop); st.Allowed == 0 && pause > 0 {
			st.sleep(pause)
		} else if err := st.wait(false, true); err != nil {
			st.tooSlow(err)
		}
		if st.Allowed == 0 && len(st.Pending) > 0 {
			st.allow()
		}
	}
	return st.err
}

// expired ends the stream if the handler's deadline for writes has passed, whether or not a write
// would have to wait.
func (st *h2stream) expired() bool {
	if !st.out.Expired(st.s.port.loop) {
		return false
	}
	st.tooSlow(loop.ErrDeadlineExceeded)
	return true
}

// tooSlow ends the stream of a client that does not take what is sent.
func (st *h2stream) tooSlow(err error) {
	if st.x != nil && st.err == nil {
		st.x.slow(err, st.slowest())
	}
	st.unhold()
	st.reset(http2.Cancel)
	st.err = err
	st.thread.Layer().Task().ClientGone()
}

// file implements carrier.
func (st *h2stream) file(f File, off, n int64) error {
	r := newFileReader(&st.thread, f, off, n)
	var buf *[streamAt]byte
	var few []byte
	defer func() { // also when the thread is killed
		if buf != nil {
			buffers.Put(buf)
		}
	}()
	for n > 0 {
		var piece []byte
		if room := st.room(); room > fewBytes {
			if buf == nil {
				buf = buffers.Get().(*[streamAt]byte)
			}
			piece = buf[:min(len(buf), room)]
		} else { // it may be for long: the piece is only to wait by
			if buf != nil {
				buffers.Put(buf)
				buf = nil
			}
			if few == nil {
				few = make([]byte, fewBytes)
			}
			piece = few
		}
		k, err := r.Read(piece[:min(n, int64(len(piece)))])
		if k > 0 {
			if err := st.data(piece[:k]); err != nil {
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

// room implements carrier.
func (st *h2stream) room() int { return int(st.s.Room(&st.Sender)) }

// end implements carrier.
func (st *h2stream) end(trailer []Field) {
	if st.ended || st.err != nil {
		return
	}
	s := st.s
	if len(st.Pending) > 0 { // a Duplex that ends writes it
		return
	}
	st.ended = true
	if len(trailer) > 0 {
		at := s.BeginBlock(st.ID, http2.EndStream)
		for _, f := range trailer {
			s.Out = http2.AppendField(s.Out, f.Name, f.Value)
		}
		s.endHead(at)
		return
	}
	s.End(&st.Sender)
	s.wake()
}

// flush implements carrier.
func (st *h2stream) flush() error {
	st.s.wake()
	return st.err
}

// abort implements carrier.
func (st *h2stream) abort(err error) error {
	if st.err == nil {
		st.reset(cmp.Or(st.x.resp.resetBy, http2.InternalError))
		st.err = err
	}
	return st.err
}

// writeError implements carrier.
func (st *h2stream) writeError() error { return st.err }

// sent implements carrier.
func (st *h2stream) sent(n int64) int64 { return max(n-int64(len(st.Pending)), 0) }

// setReadDeadline implements carrier.
func (st *h2stream) setReadDeadline(by time.Time) { st.in.SetDeadline(st.thread.Loop(), by) }

// setWriteDeadline implements carrier.
func (st *h2stream) setWriteDeadline(by time.Time) { st.out.SetDeadline(st.thread.Loop(), by) }

// setMinRate implements carrier.
func (st *h2stream) setMinRate(n int) { st.writing.MinRate = max(st.s.set.MinRate, n) }

// setBodyTimeout implements carrier.
func (st *h2stream) setBodyTimeout(d time.Duration) { setSilence(&st.reading, d, st.s.set) }

// paces implements carrier.
func (st *h2stream) paces() (reading, writing *stream.Pace) { return &st.reading, &st.writing }

// setMaxRate implements carrier.
func (st *h2stream) setMaxRate(n int64) (was int64) {
	was, st.writing.MaxRate = st.writing.MaxRate, n
	return was
}

// spend implements carrier.
func (st *h2stream) spend(n int) { st.s.stream.SpendOn(n) }

// slim implements carrier.
func (st *h2stream) slim() {}

// multiplexed implements carrier.
func (st *h2stream) multiplexed() multiplexed { return st }

// direct implements carrier: the session writes and reads.
func (st *h2stream) direct() direct { return nil }

// opensWebSocket implements multiplexed.
func (st *h2stream) opensWebSocket() bool { return st.extended }

// lastPing implements multiplexed.
func (st *h2stream) lastPing() time.Duration { return st.s.pinged }

// beginDuplex implements carrier.
func (st *h2stream) beginDuplex() { st.duplexing = true }

// endDuplex implements carrier.
func (st *h2stream) endDuplex() {
	_ = st.awaitSent()
	st.duplexing = false
}

// dropDuplex implements carrier.
func (st *h2stream) dropDuplex() {
	st.duplexing = false
	if len(st.Pending) > 0 {
		st.unhold()
		st.reset(http2.InternalError)
	}
}

// held implements carrier.
func (st *h2stream) held() int {
	if st.err != nil {
		return 0
	}
	return len(st.Pending)
}

// sendHeld implements carrier. The session sends what is held by itself.
func (st *h2stream) sendHeld() (int, error) {
	if st.err == nil && len(st.Pending) > 0 {
		if _, err := st.waitLimit(false, true); err != nil {
			st.tooSlow(err)
		} else if st.Allowed == 0 {
			st.allow()
		}
	}
	return st.held(), st.err
}

// awaitDuplex implements carrier.
func (st *h2stream) awaitDuplex(limit time.Duration, read bool, sources []loop.Source) error {
	lp := st.thread.Loop()
	least, room := limit, st.held() > 0
	if st.err != nil {
		if read {
			return nil // the next read returns it
		}
		_, err := st.thread.AwaitAny(limit, sources...)
		return err
	}
	if pause := st.out.Pause(lp); room && st.Allowed == 0 && pause > 0 {
		least, room = shorter(least, pause), false // room is not what it waits for
	}
	st.wantsInput, st.wantsRoom = read, room
	st.owesInput()
	defer func() {
		st.wantsInput, st.wantsRoom = false, false
		st.owesInput()
	}()
	left, err := st.waitLimit(read, room)
	if err != nil {
		return nil // the next read, or sendHeld, returns it
	}
	least = shorter(least, left)
	st.sources = append(append(st.sources[:0], sources...), st.self[0])
	_, err = st.thread.AwaitAny(least, st.sources...)
	if err == loop.ErrDeadlineExceeded && least != limit {
		st.checkProgress(read, room)
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
