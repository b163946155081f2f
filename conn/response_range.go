package conn

import "github.com/lwango/lwango/loop"

// rangePart is what a client gets of an answer that a tap gets all of.
type rangePart struct {
	ranged bool // there is a part; else the client gets all
	status int
	skip   int64 // bytes in front of it that are still to come
	left   int64 // bytes of it that the client has not got
	given  bool  // the client's answer has ended
}

// SendRange has the client get the answer with another status, and of the content n bytes from
// start on, while the handler makes all of it, and the tap gets that. The caller makes the header
// for that status. If the tap wants no more, the handler gets no further than to the end of the
// part. It is for Tap.Head.
func (w ResponseLayer) SendRange(status int, start, n int64) {
	a := w.tap
	if a == nil || w.phase != open {
		return
	}
	a.part = rangePart{ranged: true, status: status, skip: start, left: n}
	if w.early, w.reason = status, ""; status >= 400 {
		w.manner = relayed // the server adds no page
	}
}

// sendsRange reports whether the client gets a part alone.
func (w *Response) sendsRange() bool { return w.tap != nil && w.tap.part.ranged }

// presentRange makes the response look as the client gets it, until restoreWhole. It returns the
// status.
func (w *Response) presentRange(status int) int {
	if !w.sendsRange() {
		return status
	}
	w.size = w.tap.part.left
	return w.tap.part.status
}

// restoreWhole is called behind the head. size is that of all of the content.
func (w *Response) restoreWhole(size int64) {
	w.size, w.left = size, size
	if w.tap.part.left == 0 {
		_ = w.endForClient()
	}
}

// sendOfPart sends what is of the part in a piece of the content.
func (w *Response) sendOfPart(p []byte) error {
	a := w.tap
	at := &a.part
	n := min(at.skip, int64(len(p)))
	at.skip -= n
	part := p[n:]
	part = part[:min(at.left, int64(len(part)))]
	var err error
	if len(part) > 0 {
		at.left -= int64(len(part))
		if err = w.unlessTapped(w.send(part)); err == nil && at.left == 0 && !a.lost {
			err = w.endForClient()
		}
	} else if w.via.spend(len(p)); a.left { // no write tells that
		err = loop.ErrClientGone
	}
	if err == nil && at.given && a.done && !a.ended { // nobody wants the rest
		w.phase = complete
		err = ErrComplete
	}
	return err
}

// endForClient ends the answer for the client, which need not wait for the rest of the content.
func (w *Response) endForClient() error {
	w.tap.part.given = true
	w.endPart()
	return w.push()
}

// endPart ends the answer for the client. A Duplex that holds something holds that back, so the end
// comes once more where nothing is held any more, and behind the handler.
func (w *Response) endPart() {
	if !w.plan.bare {
		w.via.end(nil)
	}
}

// cut aborts an answer that cannot be completed, unless it has ended for its client.
func (w *Response) cut(err error) {
	if w.tap == nil || !w.tap.part.given {
		_ = w.via.abort(err)
	}
}

// sliceRange makes the part the body of an answer that is there at once, or of which the tap wants
// nothing.
func (w *Response) sliceRange(p *rangePart) {
	switch {
	case p.left == 0:
		w.discard()
	case w.kind == given:
		w.body = w.body[p.skip:][:p.left]
	case w.kind == gathered:
		w.buf = w.buf[:copy(w.buf, w.buf[p.skip:][:p.left])]
	case w.kind == file:
		w.off += p.skip
	}
	w.size, w.trailer = p.left, nil
}

// finish is called when the tap wants no more of an answer of which the client has not got its
// part.
func (a *tapped) finish() {
	a.done, a.lost = true, false
	if t := a.x.req.Thread; t != nil {
		t.KeepWaiting(a.waits)
	}
}
