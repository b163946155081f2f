package conn

import (
	"errors"
	"net/http"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
)

// Tap gets a copy of the answer to a request as its handler makes it, before hooks and codings
// change that for the client: see RequestLayer.Tap. The request's thread makes all calls but Left.
type Tap interface {
	// Head takes the head, once, and decides what becomes of the answer. It may change the header of
	// resp, and no more of that. h is valid until Head returns, and the slice of its fields is the
	// header's own. If h is Whole, Head may take the content as well.
	Head(resp *Response, h *SentHead) Verdict

	// Write takes a piece of the content, which is valid until Write returns. It may wait, but not
	// for the client. It reports whether it wants more; if not, nothing else is called.
	Write(t *loop.Thread, p []byte) (more bool)

	// End comes last, behind the last piece. trailer and sound are as Sink.End has them.
	End(trailer []Field, sound bool)

	// Failed comes last where the handler has given up before anything has gone out, and err is the
	// reason. It reports whether something else is sent in place of the error.
	Failed(err error) (withheld bool)

	// Over comes last where the answer has broken off, or there is none, and err is the reason.
	// Nothing else can be sent.
	Over(err error)

	// Left says that the client has left; served: with all that it was to get, see
	// ResponseLayer.SendRange. The loop calls it, or the thread. It reports whether the handler goes
	// on all the same; otherwise its waits and writes fail.
	Left(served bool) (goOn bool)

	// Room is how long the content may be at most that Write takes.
	Room() int64
}

// Verdict is what becomes of an answer.
type Verdict uint8

const (
	Passes   Verdict = iota // the client gets it, and the tap wants no more of it, nor another call
	Tapped                  // the client gets it, and the tap its content
	Withheld                // the client gets none of it, and the handler gets no further
)

// errWithheld is the error of writes to an answer that the client does not get.
var errWithheld = errors.New("conn: the answer is withheld")

// tapped is a response's tap, and the request as the handler has it.
type tapped struct {
	to  Tap
	x   *exchange
	sub Request
	copied
	said SentHead

	verdict   Verdict
	part      rangePart // that the client gets
	headed    bool      // Head was called
	done      bool      // the tap wants no more, and is not called any more
	ended     bool      // it has had its End
	unsound   bool      // see Sink.End
	forwarded bool      // see SentHead.Forwarded
	lost      bool      // the client takes no more, and the handler is not told
	late      bool      // bytes were held for the client before there was a head
	fed       int64     // bytes that the tap has, and that were not written to the client yet
	waits     bool      // KeepWaiting as the handler wants it
	left      bool      // the client has left, and the tap does not go on for others
}

// spareTap returns a tapped to use.
func (p *port) spareTap() *tapped {
	n := len(p.taps)
	if n == 0 {
		return new(tapped)
	}
	a := p.taps[n-1]
	p.taps[n-1] = nil
	p.taps = p.taps[:n-1]
	return a
}

// maxTaps is how many of them a port keeps.
const maxTaps = 256

// Tap has h answer the request, and t get a copy. To h the request is a GET without the fields of r
// about a body, conditions, ranges and the connection; extra are in place of r's fields of these
// names. While t says so, h goes on when the client leaves.
//
// It returns what h returns, and whether the answer was withheld; then the response is as it was
// before. Behind an answer that is not withheld t may still be called, until the answer has gone
// out.
func (r RequestLayer) Tap(resp *Response, h Handler, t Tap,
	extra []Field) (status int, withheld bool) {
	x, th := r.x, r.Thread
	if resp.within() { // it goes through a middleware of net/http, and another answer goes out
		return h(r.Request, resp), false
	}
	a := x.c.port.spareTap()
	a.to, a.x = t, x
	a.copyTo(&a.sub, r.Request, namesNotOfAnother, ofThisAlone, extra)
	a.sub.Thread, a.sub.x, a.sub.idOf = th, x, r.Request
	a.sub.head.Method = http1.GET
	a.sub.counter, a.sub.log = r.counter, r.log
	a.waits = th.KeepWaiting(true)
	resp.tap = a
	if th.Gone() {
		a.leave()
	}
	// A panic is dealt with here: what is withheld has an answer all the same.
	status = x.call(func(_ *Request, resp *Response) int { return r.instead(&a.sub, resp, h) })
	if resp.tap != a { // the answer has failed, or the handler has taken the connection over
		return status, false
	}
	return a.returned(resp, status)
}

// returned is Tap behind the handler.
func (a *tapped) returned(w *Response, status int) (int, bool) {
	switch {
	case a.verdict == Withheld:
		a.withhold(w)
		return status, true
	case w.phase == aborted && !w.HeadSent():
		if a.to.Failed(errAborted) {
			a.withhold(w)
			return status, true
		}
		w.tap = nil
		a.release()
		return status, false
	case w.phase == open && a.x.req.Thread.Layer().SawClientGone():
		w.endTap(loop.ErrClientGone) // what the handler returns means nothing
		return status, false
	case w.phase != open:
		if a.part.ranged {
			status = w.status // which the handler does not know
		}
		return status, false // finish sees to the rest
	}
	final := status
	if final == 0 {
		final = max(w.early, http.StatusOK)
	}
	if bad := w.header.firstBad(); bad != nil || final < 200 || final > 999 {
		final = w.refuse(final, bad)
		status = final
	}
	content := w.buf
	if w.kind == given {
		content = w.body
	}
	if w.kind == gathered {
		if w.size = int64(len(content)); w.endUncertain {
			w.dropLength()
		}
	}
	whole := w.kind == gathered || w.kind == given || w.size == 0
	if whole {
		if n, ok := w.declared(); ok && n != w.size {
			a.unsound = true
		}
	}
	verdict := a.head(w, final, content, whole)
	p := a.part
	if p.ranged && (whole || w.kind == file && verdict == Passes) {
		a.part = rangePart{} // it is cut out here
	}
	switch verdict {
	case Withheld:
		a.withhold(w)
		return status, true
	case Tapped:
		switch {
		case !whole:
		case len(content) > 0 && !a.take(content):
			w.dropTap()
		default:
			w.endTap(nil)
		}
	case Passes:
		w.dropTap()
	}
	if p.ranged {
		if status = p.status; w.tap == nil {
			w.sliceRange(&p)
		}
	}
	return status, false
}

// withhold makes the response as it was before the handler.
func (a *tapped) withhold(w *Response) {
	a.x.finishDuplex()
	w.tap = nil
	w.clear()
	a.release()
}

// head shows the tap the head of the answer, and returns what becomes of that. content is what the
// body begins with, or, with whole, all of it.
func (a *tapped) head(w *Response, status int, content []byte, whole bool) Verdict {
	h := &a.said
	*h = SentHead{Status: status, Length: w.size, Relayed: w.manner == relayed, Forwarded: a.forwarded,
		Fields: w.header.fields}
	if status == w.early {
		h.Reason = w.reason
	}
	if status == 204 || status == 304 {
		h.Length, content = 0, nil
	}
	if whole && !a.unsound && !w.endUncertain && len(w.trailer) == 0 {
		h.Whole, h.Content = true, content
	}
	if status != 204 && status != 304 && !w.header.Has("Content-Type") {
		if t := w.impliedType(content); t != "" {
			w.header.Add("Content-Type", t)
			h.Fields = w.header.fields
		}
	}
	a.headed = true
	a.verdict = a.to.Head(w, h)
	*h = SentHead{}
	return a.verdict
}

// headTap is called before the head goes out. It reports whether it does not.
func (w *Response) headTap(status int, first []byte) (withheld bool) {
	a := w.tap
	if !a.headed {
		a.head(w, status, first, false)
	}
	switch a.verdict {
	case Withheld:
		w.phase, w.status, w.left = streamed, status, w.size
		w.plan.bare = true
		return true
	case Passes:
		w.dropTap()
	}
	return false
}

// dropTap is called where the tap wants no more.
func (w *Response) dropTap() {
	a := w.tap
	if a.part.ranged { // of which the client has not got all
		a.finish()
		return
	}
	w.tap = nil
	a.release()
}

// take gives the tap a piece that it does not have yet, and reports whether it wants more.
func (a *tapped) take(p []byte) bool {
	n := min(a.fed, int64(len(p)))
	a.fed -= n
	if p = p[n:]; len(p) == 0 || a.done {
		return true
	}
	return a.to.Write(a.x.req.Thread, p)
}

// tapPiece is piece for an answer that is tapped. It stands apart because stacks are small.
func (w *Response) tapPiece(p []byte) error {
	a := w.tap
	if a.verdict == Withheld {
		return errWithheld
	}
	lost, ranged := a.lost, a.part.ranged
	if !a.take(p) {
		w.dropTap()
		if lost {
			return w.via.writeError()
		}
	}
	switch {
	case lost:
		return nil
	case ranged:
		return w.sendOfPart(p)
	}
	err := w.send(p)
	return w.unlessTapped(err)
}

// unlessTapped takes the error of a write to the client, and returns it unless the handler goes on
// for others.
func (w *Response) unlessTapped(err error) error {
	if a := w.tap; err != nil && a != nil && !a.done && (a.lost || a.to.Left(a.part.given)) {
		a.lost = true
		return nil
	}
	return err
}

// FeedTap gives the tap of the response a piece that is held for the client: behind what was
// written, and behind what was given by FeedTap before. It may wait, but not for the client.
func (w ResponseLayer) FeedTap(p []byte) {
	a := w.tap
	switch {
	case a == nil || a.late || a.done:
	case !a.headed:
		a.late = true // later pieces would come before this one
	case a.verdict == Tapped:
		if n := int64(len(w.buf)); a.fed < n {
			own := w.buf[a.fed:]
			a.fed = n
			if !a.to.Write(a.x.req.Thread, own) {
				w.dropTap()
				return
			}
		}
		if !a.to.Write(a.x.req.Thread, p) {
			w.dropTap()
			return
		}
		a.fed += int64(len(p))
	}
}

// Complete says that all of the answer was written or given by Ahead, and the rest is the way to
// the client alone: others need not wait for that.
func (w ResponseLayer) Complete() {
	a := w.tap
	if a == nil || a.late || a.done || a.verdict != Tapped {
		return
	}
	if n := int64(len(w.buf)); a.fed < n {
		own := w.buf[a.fed:]
		a.fed = n
		if !a.to.Write(a.x.req.Thread, own) {
			w.dropTap()
			return
		}
	}
	if a.part.ranged {
		a.to.End(w.trailer, !a.unsound && !w.endUncertain)
		a.ended = true
		a.finish()
		return
	}
	w.endTap(nil)
}

// TapRoom is how much of the content may be held for a slow client so that others need not wait for
// it: that of the tap (Tap.Room), 0 if there is none.
func (w ResponseLayer) TapRoom() int64 {
	if a := w.tap; a != nil && a.verdict == Tapped && !a.done {
		return a.to.Room()
	}
	return 0
}

// endTap tells the tap, if there is one, that the answer is complete, or, with an error, that it is
// not.
func (w *Response) endTap(err error) {
	a := w.tap
	if a == nil {
		return
	}
	w.tap = nil
	if a.part.given {
		w.endPart()
	}
	if err == nil && a.headed && !a.done {
		a.end(w.trailer, !a.unsound && !w.endUncertain)
		return
	}
	if err == nil {
		err = errAborted
	}
	a.over(err)
}

// end tells the tap that the answer is complete. If the tap panics, it is told that it is over:
// others may wait for it.
func (a *tapped) end(trailer []Field, sound bool) {
	ended := false
	defer func() {
		if !ended {
			a.over(errAborted)
		}
	}()
	a.to.End(trailer, sound)
	ended = true
	a.release()
}

// over tells the tap that the answer has broken off, unless that has had its last call.
func (a *tapped) over(err error) {
	if !a.done {
		a.to.Over(err)
	}
	a.release()
}

// release lets go of what is not used any more.
func (a *tapped) release() {
	if t := a.x.req.Thread; t != nil {
		t.KeepWaiting(a.waits)
	}
	if a.sub.Thread != nil { // the handler still has the request, or a function off the loop
		return
	}
	p, raw, fields := a.x.c.port, a.raw, a.fields
	if cap(raw) > usualRaw || cap(fields) > usualFields {
		raw, fields = nil, nil
	}
	*a = tapped{} // in place: a literal with these two is made elsewhere, and copied
	a.raw, a.fields = raw, fields
	if !invariants.Enabled && len(p.taps) < maxTaps {
		p.taps = append(p.taps, a)
	}
}

// leave is called when the client has left. It reports whether the handler goes on for others.
func (a *tapped) leave() bool {
	if !a.done && a.to.Left(a.part.given) {
		return true
	}
	a.left = true
	a.x.req.Thread.KeepWaiting(a.waits)
	return false
}

// keepWaiting is Request.KeepWaiting: as long as the tap goes on for others, the thread waits
// whatever the handler wants.
func (a *tapped) keepWaiting(on bool) (was bool) {
	was, a.waits = a.waits, on
	if a.left {
		a.x.req.Thread.KeepWaiting(on)
	}
	return was
}

// SentHead is the head of an answer to a background subrequest.
type SentHead struct {
	Status int
	Reason string  // "": the usual one
	Fields []Field // without those of the framing and of the connection

	// Length is that of the content, as the handler has declared it; -1: its end tells.
	Length int64

	// Whole says that the answer is there at once, sound and without a trailer, and Content is all of
	// it, valid until Head returns. Else the content is Write's.
	Whole   bool
	Content []byte

	// Relayed says that the answer is another server's, as ResponseLayer.Relay does.
	Relayed bool

	// Forwarded says that the answer is not what the request asks for, but what an application has
	// named instead (RequestLayer.Forward and Elsewhere).
	Forwarded bool
}

// MarkEndUncertain says that nothing tells whether what was written is all of the content: it has
// come from a connection whose end is that of the content, and would be if the other side had died.
// A client gets it as it is, without a Content-Length, which would vouch for it; no cache keeps it.
func (w ResponseLayer) MarkEndUncertain() {
	w.live()
	w.endUncertain = true
}
