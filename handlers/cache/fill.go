package cache

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/rfc9111"
	"github.com/lwango/lwango/loop"
)

// Why a fill has brought no answer to those that wait for it.
var (
	errFailed    = errors.New("cache: the application has failed, and what is kept may be sent")
	errNoReaders = errors.New("cache: nobody waits any more")
)

// patience is how long a reader of an answer that is not kept may hold up the others.
const patience = 10 * time.Second

// fill is an answer on its way: to the store or, if it is not kept, past it. All that has no other
// comment is used by threads of the subrequest's loop alone.
type fill struct {
	l           *layer
	at          *opened
	to          *cachestore.Fill // any thread
	request     rfc9111.Request
	old         *cachestore.Object // that is validated; nil: none
	requestTime time.Time
	markedKey   uint64 // see Store.hitForMiss
	background  conn.BackgroundSubrequest
	req         *conn.Request // the subrequest's, while its handler runs
	keep        bool          // no rule of the operator's is against it, and somebody wants it
	alone       bool          // others need not wait for the head
	isRefresh   bool          // it is a refresh

	leader   *loop.Thread // that waits; nil: none does
	interims []interim
	head     *cachestore.Head // nil: none has come
	fields   []conn.Field
	trailer  []conn.Field
	changed  bool               // the application has said something else than old, and no error
	object   *cachestore.Object // what was kept of it; nil: nothing yet
	err      error              // why there is no answer, or no more of it
	why      rfc9111.Why
	ready    bool // the leader may go on
	ended    bool

	pipe *pipe // of a background subrequest whose answer is not kept
	away bool  // the client that has asked by it left before there was a head

	// Of one that a request leads by its own exchange.
	leading *conn.Request   // nil: it is a background subrequest's, or the answer has gone out
	forward rfc9111.Forward // why it is sent to the origin
	use     conn.CacheUse
	thread  *loop.Thread // its; nil as leading is
	loop    *loop.Loop
	gone    bool // its client has left
	toEnd   bool // then: it is fetched to its end all the same, while it is going to be kept

	arriving arriving        // the answer's, see Head.Meta
	text     []byte          // to make the answer's Fields in
	space    cachestore.Fill // of one that leads
	users    int8            // the leader and the subrequest, as far as they have not released f
	handle   conn.Handler    // answers
}

// fills are those that nobody uses.
var fills sync.Pool

// newFill returns a fill.
func newFill() *fill {
	f, _ := fills.Get().(*fill)
	if f == nil {
		f = new(fill)
		f.handle = f.answer
	}
	f.users = 2
	return f
}

// release says that the leader has got the answer, or that the subrequest is over, and that it does
// not use f any more. When both have, f, the subrequest and what is below are used again, unless
// others have seen them. It is called on the subrequest's loop, or not at all, as where something
// has gone wrong.
func (f *fill) release() {
	if f.users--; f.users > 0 || !f.to.Release() {
		return
	}
	f.background.Release()
	f.spare()
}

// spare makes f, which nobody else has, one that is used again.
func (f *fill) spare() {
	if invariants.Enabled {
		return
	}
	text := f.text[:0]
	if cap(text) > usualText {
		text = nil
	}
	*f = fill{handle: f.handle, text: text}
	fills.Put(f)
}

type interim struct {
	status int
	fields []conn.Field
}

// capability tells an application that its Surrogate-Control is read.
var capability = []conn.Field{{Name: rfc9111.FieldSurrogateCapability, Value: rfc9111.Capability}}

// send has the handler answer.
func (f *fill) send(req *conn.Request) {
	f.background = req.Layer().StartBackground(f.handle, f, f.extra(req))
}

// extra returns the fields that the handler gets besides, and notes when it is asked.
func (f *fill) extra(req *conn.Request) []conn.Field {
	f.requestTime = f.l.store.date(req)
	extra := capability
	if f.old != nil {
		k := keptOf(f.old)
		if k.etag.n > 0 {
			extra = append(extra[:len(extra):len(extra)],
				conn.Field{Name: "If-None-Match", Value: k.etag.of(k.Fields)})
		}
		if k.dated {
			extra = append(extra[:len(extra):len(extra)], conn.Field{Name: "If-Modified-Since",
				Value: string(http1.AppendDate(nil, time.Unix(k.changed, 0)))})
		}
	}
	return extra
}

func (f *fill) answer(req *conn.Request, resp *conn.Response) int {
	f.req = req
	return f.l.next(req, resp)
}

// Inform implements conn.Sink.
func (f *fill) Inform(status int, fields []conn.Field) {
	if f.leader != nil {
		f.interims = append(f.interims, interim{status, slices.Clone(fields)})
		f.leader.Layer().NotifyLocal()
	}
}

// Head implements conn.Sink.
func (f *fill) Head(h *conn.SentHead) (taken bool) {
	now, date := f.l.store.now(f.req), f.l.store.date(f.req)
	if f.sendStored(h, now, date) {
		return false
	}
	var x rfc9111.ResponseReader
	answer := f.l.says(&x, h.Status, h.Fields)
	c := f.judge(h, answer, now, date)
	k := &c.kept
	var list []byte
	f.fields = h.Fields[:0]
	for _, field := range h.Fields {
		if between := rfc9111.TagSeparator(field.Name); between != "" {
			list = appendTags(list, field.Value, between)
		} else if !rfc9111.IsForThisCache(field.Name) {
			f.fields = append(f.fields, field)
		}
	}
	variant, tags := "", string(list)
	if k.shared {
		variant = variantOf(answer.Vary, f.req.Layer())
	}
	f.text = k.appendText(f.text[:0], f.fields, answer, date)
	if k.shared && f.whole(h, variant, tags, k) {
		return true
	}
	head := k.head(h.Status, h.Reason, string(f.text), variant, tags)
	if k.shared {
		c.fill.Store(f)
		head.Arriving = c
		if f.head = f.to.Start(head, h.Length); f.head != nil {
			return false
		}
		f.untaken(h.Status, now)
	}
	return f.passOn(h, &head)
}

// passOn has an answer that is not kept go to the client that has asked, and to nobody else: those
// that wait ask for themselves. It reports whether it has taken all of it.
func (f *fill) passOn(h *conn.SentHead, head *cachestore.Head) (taken bool) {
	f.to.Abort(cachestore.ErrAgain)
	if f.isRefresh || f.away {
		f.over(errNoReaders)
		return false
	}
	f.head, f.pipe = head, &pipe{of: f, length: h.Length, left: h.Length}
	if h.Whole && len(h.Content) <= splitAt {
		f.pipe.content, f.pipe.length = append([]byte{}, h.Content...), int64(len(h.Content))
		f.over(nil)
		return true
	}
	f.Flush()
	return false
}

// whole keeps an answer that is there at once. It reports whether it has done so; else the answer
// comes as others do.
func (f *fill) whole(h *conn.SentHead, variant, tags string, k *kept) bool {
	if !h.Whole || len(h.Content) > splitAt {
		return false
	}
	fields := unsafe.String(unsafe.SliceData(f.text), len(f.text)) // which Whole copies
	f.head, f.object = f.to.Whole(k.head(h.Status, h.Reason, fields, variant, tags), h.Content)
	if f.head == nil {
		return false
	}
	f.over(nil)
	return true
}

// pass notes that the answer is not kept because of what it is: requests for the key need not wait
// for each other, and what is kept is not what the application says any more, unless it says that
// to one client.
func (f *fill) pass(status int, now time.Time) {
	switch {
	case f.why == rfc9111.WhyRequest, !f.keep:
	case status >= 500:
		f.passFor(hitForMissShort, now)
	default:
		f.passFor(hitForMissLong, now)
	}
}

// untaken is pass for an answer that might be kept, and for which there is no room.
func (f *fill) untaken(status int, now time.Time) {
	switch {
	case f.to.TooLong():
		f.pass(status, now)
	case f.to.Beyond():
		f.passFor(0, now) // another client's may be kept at once
	default:
		f.passFor(hitForMissShort, now) // there may be some in a moment
	}
}

// passFor marks the key for d, 0: not at all.
func (f *fill) passFor(d time.Duration, now time.Time) {
	if d > 0 {
		f.l.store.hitForMiss.add(f.markedKey, now, d)
	}
	switch f.why {
	case rfc9111.WhyAuthorized, rfc9111.WhySetCookie: // others may get another one
	default:
		if f.changed {
			f.at.Remove(f.old)
		}
	}
}

// validated takes a 304 for what is kept.
func (f *fill) validated(h *conn.SentHead, now, date time.Time) {
	old := keptOf(f.old)
	var x, y rfc9111.ResponseReader
	said := f.l.says(&x, h.Status, h.Fields)
	if h.Forwarded || !said.Validates(old.etag.of(old.Fields), old.modified()) {
		f.at.Remove(f.old) // its origin has another one
		f.stop(cachestore.ErrAgain)
		return
	}
	k := &new(arriving).kept
	k.relayed, k.shared = old.relayed, true
	var fields []conn.Field
	for _, field := range old.list() {
		replaced := slices.ContainsFunc(h.Fields, func(n conn.Field) bool {
			return ascii.EqualFold(n.Name, field.Name) && said.Updates(n.Name)
		})
		if !replaced {
			fields = append(fields, field)
		}
	}
	for _, field := range h.Fields {
		if said.Updates(field.Name) ||
			ascii.EqualFold(field.Name, rfc9111.FieldXAccelExpires) { // which is read, and not kept
			fields = append(fields, field)
		}
	}
	merged := f.l.says(&y, old.Status, fields)
	merged.Date, merged.Age = said.Date, said.Age
	rules := f.l.rulesFor(old.Status)
	// whoever has asked: the answer was fit to be kept before
	request := rfc9111.Request{Method: "GET"}
	k.fresh, f.why = rules.Store(&request, merged, f.requestTime, date)
	k.fresh.Received = now.UnixNano()
	vary, _, _ := strings.Cut(old.Vary, "\n")
	if f.why != rfc9111.Kept || string(merged.Vary) != vary { // for whom it is, is not known then
		f.at.Remove(f.old)
		f.stop(cachestore.ErrAgain)
		return
	}
	text := k.appendText(nil, fields, merged, date)
	f.object = f.to.Freshen(f.old, k.head(old.Status, old.Reason, string(text), old.Vary, old.Tags))
	f.over(cachestore.ErrAgain)
}

// stop gives up what has come: those that wait get err, and the handler gets no further.
func (f *fill) stop(err error) {
	f.to.Abort(err)
	f.over(err)
}

// over notes that nothing more comes, and wakes the leader.
func (f *fill) over(err error) {
	f.ended, f.err = true, err
	if f.head != nil {
		if c, ok := f.head.Arriving.(*arriving); ok {
			c.fill.Store(nil)
		}
	}
	f.Flush()
	if f.pipe != nil {
		wake(f.pipe.reads)
	}
}

// Write implements conn.Sink.
func (f *fill) Write(t *loop.Thread, p []byte) error {
	switch {
	case f.ended:
		return f.err
	case f.pipe != nil:
		return f.pipe.write(t, p)
	}
	return f.to.Write(t, p, patience)
}

// Flush implements conn.Sink.
func (f *fill) Flush() {
	f.ready = true
	if f.leader != nil {
		f.leader.Layer().NotifyLocal()
	}
}

// End implements conn.Sink.
func (f *fill) End(trailer []conn.Field, sound bool) {
	if f.ended {
		return
	}
	f.trailer = trailer
	if f.pipe != nil {
		f.over(nil)
		return
	}
	switch {
	case !sound:
		f.to.Keep(false)
	case answerOf(f.head).shared && !f.to.Keep(true):
		f.untaken(f.head.Status, f.l.store.now(cmp.Or(f.leading, f.req)))
	}
	var err error
	f.object, err = f.to.Commit()
	if err == cachestore.ErrNotKept {
		err = nil
	}
	f.over(err)
}

// Over implements conn.Sink.
func (f *fill) Over(err error) {
	f.req = nil
	if f.isRefresh {
		f.l.refreshes.leave(&f.l.store.refreshes)
	}
	if !f.ended {
		f.stop(cmp.Or(err, errNoReaders))
		return
	}
	f.release()
}

// left is called when a client has left that read the answer. It ends the handler's work for
// nobody. Any thread calls it.
func (f *fill) left() {
	if f.loop != nil {
		f.unread()
		return
	}
	if (f.l.always || f.isRefresh) && f.to.Keep(true) || f.to.Readers() > 0 {
		return
	}
	_ = f.background.Loop().Post(func() {
		if f.ended || f.to.Readers() > 0 {
			return
		}
		f.keep = false
		f.to.Keep(false) // nobody can join from here on
		if f.to.Readers() == 0 {
			f.background.Cancel()
		}
	})
}

// Watch, Ready and Unwatch make f a loop.Source for its leader.
func (f *fill) Watch(t *loop.Thread) error {
	f.leader = t
	return nil
}

// Ready implements loop.Source.
func (f *fill) Ready() bool { return f.ready || len(f.interims) > 0 }

// Unwatch implements loop.Source.
func (f *fill) Unwatch(*loop.Thread) {}

// says returns what the fields of an answer say to caches. x is the zero ResponseReader.
func (l *layer) says(x *rfc9111.ResponseReader, status int,
	fields []conn.Field) *rfc9111.Response {
	x.Begin(status)
	for i := range fields {
		if l.ignore == nil || !l.ignores(fields[i].Name) {
			x.Add(fields[i].Name, fields[i].Value)
		}
	}
	return x.End()
}

// ignores reports whether a field does not count.
func (l *layer) ignores(name string) bool {
	return slices.ContainsFunc(l.ignore, func(s string) bool { return ascii.EqualFold(s, name) })
}

// appendTags appends the tags of a list to others, with one space between two. Tags come by the ten
// thousand, so it copies each once.
func appendTags(tags []byte, list, between string) []byte {
	for tag := range strings.SplitSeq(list, between) {
		if tag = strings.TrimSpace(tag); tag == "" {
			continue
		}
		if len(tags) > 0 {
			tags = append(tags, ' ')
		}
		tags = append(tags, tag...)
	}
	return tags
}

// appendText appends those fields that are kept, and a date if there is none, and notes what they
// decide, and when the answer was changed.
func (k *kept) appendText(text []byte, fields []conn.Field, answer *rfc9111.Response,
	date time.Time) []byte {
	for i := range fields {
		f := &fields[i]
		if answer.Keeps(f.Name) && (answer.Date != 0 || !ascii.EqualFold(f.Name, "Date")) {
			k.take(f.Name, f.Value, len(text))
			text = appendField(text, f)
		}
	}
	if answer.Date == 0 {
		k.take("Date", "", len(text))
		text = append(http1.AppendDate(append(text, "Date: "...), date), "\r\n"...)
	}
	if k.changed, k.dated = answer.LastModified, answer.LastModified != 0; !k.dated {
		k.changed = cmp.Or(answer.Date, date.Unix())
	}
	return text
}

// freshness returns the object's, as purges have left it.
func (s *Store) freshness(o *cachestore.Object, now time.Time) rfc9111.Freshness {
	f := metaOf(o).fresh
	if o.Stale() {
		purged := o.StaleSince().Add(s.clock.fromMachine())
		if purged.After(now) {
			purged = now
		}
		f.Expire(purged)
	}
	return f
}
