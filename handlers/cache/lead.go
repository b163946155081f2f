package cache

import (
	"cmp"
	"net/http"
	"time"
	"unsafe"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/rfc9111"
	"github.com/lwango/lwango/loop"
)

// leader makes what fills by the request's own exchange.
func (l *layer) leader(req *conn.Request, q *fetch) *fill {
	f := l.fill(req, nil, q)
	f.thread, f.loop = req.Thread, req.Thread.Loop()
	f.forward, f.leading, f.use = q.why, req, use(q)
	return f
}

// lead has the handler answer the request, and fills the store meanwhile. The results are fetch's.
func (l *layer) lead(req *conn.Request, resp *conn.Response, f *fill) (status int,
	validated *cachestore.Object, again error) {
	f.limit()
	old := f.old
	status, withheld := req.Layer().Tap(resp, l.next, (*tap)(f), f.extra(req))
	switch {
	case !withheld:
		return status, nil, nil
	case f.err == cachestore.ErrAgain:
		validated = f.object
		f.done()
		return 0, validated, cachestore.ErrAgain
	}
	f.done()
	return l.hit(req, resp, old, conn.CacheStale, l.store.now(req)), nil, nil // see errFailed
}

// tap is a fill as a conn.Tap.
type tap fill

// Head implements conn.Tap.
func (p *tap) Head(resp *conn.Response, h *conn.SentHead) conn.Verdict {
	f := (*fill)(p)
	f.to.Fetch()
	now, date := f.l.store.now(f.leading), f.l.store.date(f.leading)
	if f.sendStored(h, now, date) {
		return conn.Withheld
	}
	var x rfc9111.ResponseReader
	answer := f.l.says(&x, h.Status, h.Fields)
	c := f.judge(h, answer, now, date)
	f.leading.Layer().SetCache(f.use)
	narrows := h.Status == http.StatusOK && (f.request.Ranged || f.request.Conditional)
	if c.shared || narrows {
		f.text = c.appendText(f.text[:0], h.Fields, answer, date)
	}
	stored, verdict := c.shared, conn.Passes
	if !stored {
		f.stop(cachestore.ErrAgain) // those that wait ask for themselves
	} else if verdict = f.keeps(h, c, answer); verdict == conn.Passes && f.object == nil {
		stored = false
	}
	header := resp.Header()
	if someForThisCache(h.Fields) {
		removeForThisCache(header)
	}
	if narrows {
		f.narrow(resp, h, &c.kept)
	}
	header.Add(rfc9111.FieldCacheStatus, followed(f.forward, stored, false))
	if verdict == conn.Passes {
		f.done()
	}
	return verdict
}

// keeps keeps an answer that is there at once, and begins to keep another one.
func (f *fill) keeps(h *conn.SentHead, c *arriving, answer *rfc9111.Response) conn.Verdict {
	k := &c.kept
	variant, tags := variantOf(answer.Vary, f.leading.Layer()), tagsOf(h.Fields)
	if f.whole(h, variant, tags, k) {
		return conn.Passes
	}
	c.fill.Store(f)
	head := k.head(h.Status, h.Reason, string(f.text), variant, tags)
	head.Arriving = c
	if f.head = f.to.Start(head, h.Length); f.head == nil {
		f.untaken(h.Status, f.l.store.now(f.leading))
		f.stop(cachestore.ErrAgain)
		return conn.Passes
	}
	return conn.Tapped
}

// narrow gives the client what it has asked for of an answer that passes, as a plan for what is
// kept would: the part that its range names, or that it has the answer already. The handler was
// asked for all. What cannot be known, as where the length is not, is sent whole.
func (f *fill) narrow(resp *conn.Response, h *conn.SentHead, k *kept) {
	s := planResponse{size: h.Length, place: ofReader}
	s.kept, s.Status, s.Reason = k, h.Status, h.Reason
	s.Fields = unsafe.String(unsafe.SliceData(f.text), len(f.text)) // only for now
	if h.Whole {
		s.size = int64(len(h.Content))
	}
	q := f.l.planRequest(f.leading, resp, f.request)
	var p plan
	if p.answer(&q, &s, f.use); p.status == s.Status {
		return
	}
	p.amend(resp.Header(), &s)
	if p.body == noBody {
		p.part = http1.Range{}
	}
	resp.Layer().SendRange(p.status, p.part.Start, p.part.Length)
}

// Write implements conn.Tap.
func (p *tap) Write(t *loop.Thread, b []byte) (more bool) {
	f := (*fill)(p)
	if f.ended {
		return false
	}
	err := f.to.Write(t, b, patience)
	if err != nil {
		f.stop(err)
		f.done()
	}
	return err == nil
}

// End implements conn.Tap.
func (p *tap) End(trailer []conn.Field, sound bool) {
	f := (*fill)(p)
	f.End(trailer, sound)
	f.done()
}

// Failed implements conn.Tap.
func (p *tap) Failed(err error) (withheld bool) {
	f := (*fill)(p)
	if f.old != nil {
		now := f.l.store.now(f.leading)
		fresh := f.l.store.freshness(f.old, now)
		withheld = fresh.IfError(&f.request, now)
	}
	if withheld {
		f.stop(err)
		return true
	}
	p.Over(err)
	return false
}

// Over implements conn.Tap.
func (p *tap) Over(err error) {
	f := (*fill)(p)
	if !f.ended {
		f.stop(cmp.Or(err, errNoReaders))
	}
	f.done()
}

// done says that nothing of the request is used any more. f and what is below are used again,
// unless others have seen them.
func (f *fill) done() {
	f.leading, f.thread = nil, nil
	if f.to.Release() {
		f.spare()
	}
}

// Left implements conn.Tap: the handler goes on while others wait, or the answer is to be fetched
// to its end, as one is of which the client has got its part.
func (p *tap) Left(served bool) (goOn bool) {
	f := (*fill)(p)
	f.gone, f.toEnd = true, served || f.l.always
	switch {
	case f.ended:
		return false
	case f.to.Readers() > 0, f.toEnd && f.to.Keep(true):
		f.to.Lead(false)
		return true
	}
	f.keep = false
	f.to.Keep(false) // nobody can join from here on
	return f.to.Readers() > 0
}

// Room implements conn.Tap.
func (p *tap) Room() int64 { return (*fill)(p).to.Room() }

// unread is called when a client has left that has waited for the answer or read it, and the one
// that leads may have left before. Any thread calls it.
func (f *fill) unread() {
	if f.l.always && f.to.Keep(true) || f.to.Readers() > 0 {
		return
	}
	_ = f.loop.Post(func() {
		if f.ended || !f.gone || f.thread == nil || f.to.Readers() > 0 || f.toEnd && f.to.Keep(true) {
			return
		}
		f.keep = false
		f.to.Keep(false)
		if f.to.Readers() == 0 {
			f.thread.Layer().EndKeepWaiting()
		}
	})
}

// sendStored reports whether what is kept is sent in place of an answer: it is true, as a 304 says,
// or may be sent when the application fails. What is kept is freshened, or dropped; see err.
func (f *fill) sendStored(h *conn.SentHead, now, date time.Time) bool {
	switch {
	case f.old == nil:
	case h.Status == http.StatusNotModified:
		f.validated(h, now, date)
		return true
	case rfc9111.Failed(h.Status):
		if fresh := f.l.store.freshness(f.old, now); fresh.IfError(&f.request, now) {
			f.stop(errFailed)
			return true
		}
	}
	return false
}

// judge decides whether an answer is kept, and marks the key of one that is not.
func (f *fill) judge(h *conn.SentHead, answer *rfc9111.Response, now, date time.Time) *arriving {
	f.changed = f.old != nil && (h.Status < 400 || h.Status == 404 || h.Status == 410)
	rules := f.l.rulesFor(h.Status)
	c := &f.arriving
	k := &c.kept
	k.relayed = h.Relayed
	k.fresh, f.why = rules.Store(&f.request, answer, f.requestTime, date)
	k.fresh.Received = now.UnixNano()
	k.shared = f.why == rfc9111.Kept && f.keep && !h.Forwarded
	if k.shared {
		f.l.store.hitForMiss.remove(f.markedKey)
	} else {
		f.to.Keep(false)
		f.pass(h.Status, now)
	}
	return c
}

// someForThisCache reports whether some of the fields may be among rfc9111.ForThisCache.
func someForThisCache(fields []conn.Field) bool {
	for i := range fields {
		if http1.MayHave(rfc9111.ForThisCacheNames, fields[i].Name) {
			return true
		}
	}
	return false
}

// tagsOf returns the tags of an answer.
func tagsOf(fields []conn.Field) string {
	if !someForThisCache(fields) {
		return ""
	}
	var list []byte
	for i := range fields {
		if between := rfc9111.TagSeparator(fields[i].Name); between != "" {
			list = appendTags(list, fields[i].Value, between)
		}
	}
	return string(list)
}
