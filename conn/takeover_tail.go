package conn

import (
	"errors"
	"time"

	"github.com/lwango/lwango/stream"
)

// Tail is the rest of an answer whose handler has returned, and left it to a Keeper: see KeepOpen.
// It belongs to the answer's thread.
type Tail struct {
	takeover
	via     carrier // nil while the answer is idle
	sent    int64   // of its content, since the handler has returned
	counter uint32  // see RequestLayer.SetCounter
	status  int16

	// Over HTTP/1.1.
	delimited delimiter
	last      bool // the connection ends with the answer
}

// Write sends p at once, as a piece of the answer's content, and waits while the client is slow to
// take it. Only the methods of the Keeper may call it. After an error the answer is cut.
func (w *Tail) Write(p []byte) (int, error) {
	if w.via == nil {
		return 0, ErrComplete
	}
	if len(p) == 0 {
		return 0, nil
	}
	err := w.via.data(p)
	if err == nil {
		err = w.via.flush()
	}
	if err != nil {
		return 0, err
	}
	w.sent += int64(len(p))
	return len(p), nil
}

// SetWriteDeadline sets the time by which the client has to have taken what is written, in place of
// write_timeout and min_rate; the zero Time: these again. It ends with the call of the Keeper.
func (w *Tail) SetWriteDeadline(by time.Time) {
	if w.via != nil {
		w.via.setWriteDeadline(by)
	}
}

// SetWriteDeadline is Tail.SetWriteDeadline for an answer whose handler has to stay.
func (w ResponseLayer) SetWriteDeadline(by time.Time) { w.setWriteDeadline(by) }

// errNoTail refuses a KeepOpen.
var errNoTail = errors.New("conn: the rest of the answer needs its handler")

// KeepOpen leaves the rest of the answer to k, as soon as the handler has returned: what HandOver
// says of a connection holds for the answer. k writes to the Tail. Behind End the answer is
// complete, unless a write has failed, k has panicked, or a stop has killed it; then it is cut.
//
// The head must have gone out (Flush), without a length; the request's body must have been read,
// and nothing may encode the answer or wait for it within the server. Otherwise the error says that
// the handler has to stay.
func (w ResponseLayer) KeepOpen(k Keeper) (*Tail, error) {
	x := w.x
	if w.phase != streamed || w.kind != gathered || w.enc != nil || w.size >= 0 || w.plan.bare ||
		len(w.buf)+len(w.trailer) > 0 || x.subrequest != nil || x.background != nil || x.duplex != nil ||
		x.fullLog != nil || x.req.body.state != bodyEnded || w.tap != nil || w.within() {
		return nil, errNoTail
	}
	o, tail := x.via.keepOpen()
	if o == nil {
		return nil, errNoTail
	}
	setOwner(x, o, false)
	tail.keeper, x.cancel = k, nil
	tail.counter, tail.status = x.req.counter, int16(w.status)
	x.counting = false
	if x.set.Count {
		p := x.c.port.stats.route(tail.counter)
		p.Got += x.req.body.read
		p.Sent += x.sentBody()
		p.Cache[x.cache]++
	}
	w.phase = hijacked
	return tail, nil
}

// attach implements owner.
func (w *Tail) attach() {}

// finish notes, once, that the answer has ended. The result is as laterLine.write has it.
func (w *Tail) finish(p *port) (fullLog AccessLog) {
	if w.finished {
		return nil
	}
	w.finished = true
	t := p.stats
	t.Ended++
	if p.server.settings.Load().Count {
		p := t.route(w.counter)
		p.answered(int(w.status))
		p.Sent += w.sent
	}
	if w.line != nil {
		w.extra().sent = w.sent
		fullLog = w.line.write(&w.takeover)
	}
	if w.cancel != nil {
		w.cancel(nil)
	}
	return fullLog
}

// keepPace keeps the pace of the client between two runs, takePace takes it up again.
func (w *Tail) keepPace(p stream.Pace) {
	p.ResetSilenceOf(nil) // the request has been read
	w.extra().pace = &p
}

// slow is exchange.slow for what comes behind the handler.
func (w *Tail) slow(at *port, p *stream.Pace, from peer) {
	args := w.ofRoute().attrs([]any{"request_id", w.id()})
	at.server.logSlow(tooSlow, p, false, append(args, "remote", from.addrPort())...)
}

func (w *Tail) takePace(p *stream.Pace) {
	if m := w.more; m != nil && m.pace != nil {
		*p, m.pace = *m.pace, nil
	}
}
