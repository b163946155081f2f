package cache

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/wire/byteranges"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// revalidated is Cache-Status of an answer that is kept, and that its origin has said to be true.
var revalidated = func() string {
	s := rfc9111.CacheStatus{Cache: rfc9111.Name, Forward: rfc9111.ForwardStale,
		FwdStatus: http.StatusNotModified, Stored: true}
	return string(s.Append(nil))
}()

// planRequest returns what plans look at in a request.
func (l *layer) planRequest(req *conn.Request, resp *conn.Response,
	request rfc9111.Request) planRequest {
	q := planRequest{Request: request, from: req.Layer(), coding: l.coding}
	if request.Ranged {
		hooks, _ := resp.Layer().Hooks()
		q.hooked, q.date = hooks > 0, l.store.date(req)
	}
	return q
}

// planResponse returns what plans look at in an answer that is kept.
func (l *layer) planResponse(o *cachestore.Object, now time.Time) (s planResponse) {
	var inMemory bool
	s.Head, s.body, inMemory = o.View()
	s.kept = metaOf(o)
	if s.size, s.place = int64(len(s.body)), ofMemory; !inMemory {
		s.size, s.place = o.Size(), ofFile
	}
	s.fresh = s.kept.fresh
	if s.stale = o.Stale(); s.stale {
		s.fresh = l.store.freshness(o, now)
	}
	return s
}

// hit answers with what is kept, whatever its age.
func (l *layer) hit(req *conn.Request, resp *conn.Response, o *cachestore.Object, use conn.CacheUse,
	now time.Time) int {
	q := l.planRequest(req, resp, rfc9111.ReadRequest(req.Method(), req.Layer()))
	s := l.planResponse(o, now)
	var p plan
	p.answer(&q, &s, use)
	status, _ := l.send(req, resp, o, &s, &p, now)
	return status
}

// send answers with what is kept, as the plan says. Where that cannot be sent, the handler has
// answered instead, or nothing has, and sent is false.
func (l *layer) send(req *conn.Request, resp *conn.Response, o *cachestore.Object, s *planResponse,
	p *plan, now time.Time) (status int, sent bool) {
	var file *cachestore.File
	var off int64
	if p.body == ofFile { // first, as it may fail
		var err error
		if file, off, err = o.Open(req.Thread); err != nil {
			return l.instead(req, resp, p, rfc9111.ForwardMiss), false
		}
	}
	var of io.Closer // of a long body
	if o.Long() && (p.body == ofMemory || p.body == severalParts) {
		// it does not take what it gets already
		if of = o.Use(req.Thread.Layer().Client(), p.shared); of == nil {
			return l.instead(req, resp, p, rfc9111.ForwardBypass), false
		}
	}
	o.Hit()
	req.Layer().SetCache(p.use)
	age, said := l.store.aging.texts(s.kept, now, s.stale)
	if p.use == conn.CacheRevalidated {
		said = revalidated
	}
	resp.Layer().AddValid(s.Fields, int(s.fields), conn.Field{Name: rfc9111.FieldAge, Value: age},
		conn.Field{Name: rfc9111.FieldCacheStatus, Value: said})
	if p.relays {
		resp.Layer().Relay(p.status, p.reason)
	}
	if p.status != s.Status {
		p.amend(resp.Header(), s)
	}
	switch p.body {
	case ofMemory:
		setBody(resp, s.body[p.part.Start:][:p.part.Length], of)
		if p.coding != coding.Identity {
			l.coded(req, resp, o, p.coding, s.body)
		}
	case ofFile:
		resp.SetBodyFile(file, off+p.part.Start, p.part.Length)
	case ofLength:
		resp.Header().Set("Content-Length", decimal(p.part.Length))
	case severalParts:
		several(resp, s, p, of)
	}
	return p.status, true
}

// instead answers where what is kept cannot be sent.
func (l *layer) instead(req *conn.Request, resp *conn.Response, p *plan, why rfc9111.Forward) int {
	if p.only {
		return http.StatusGatewayTimeout // RFC 9111 section 5.2.1.7
	}
	return l.forward(req, resp, why)
}

// ofContent are fields that describe a content, which an error does not have.
var ofContent = [...]string{"Content-Type", "Content-Encoding", "Content-Language", "Last-Modified"}

// amend makes of the fields of what is kept those of another status.
func (p *plan) amend(h *conn.Header, s *planResponse) {
	switch {
	case p.status == http.StatusRequestedRangeNotSatisfiable:
		for _, name := range ofContent {
			h.Del(name)
		}
		h.Set("Content-Range", byteranges.ContentRange(http1.Range{}, s.size))
	case p.body == severalParts:
		h.Del("Content-Range") // each part has its own (RFC 9110 section 15.3.7.2)
	case p.status == http.StatusPartialContent:
		h.Set("Content-Range", byteranges.ContentRange(p.part, s.size))
	}
}

// setBody makes b, which is of an object's body, the answer's. of is closed when that is out; nil:
// nothing is.
func setBody(resp *conn.Response, b []byte, of io.Closer) {
	if of != nil {
		resp.Layer().SetBodyOf(b, of)
	} else {
		resp.SetBody(b)
	}
}

// several answers with several ranges. of is closed when they are out; nil: nothing is.
func several(resp *conn.Response, s *planResponse, p *plan, of io.Closer) {
	b, boundary, length := byteranges.New(bytes.NewReader(s.body), p.parts, s.contentType.of(s.Fields),
		s.size)
	resp.Header().Set("Content-Type", "multipart/byteranges; boundary="+boundary)
	if of != nil {
		resp.SetBodyReader(struct {
			io.Reader
			io.Closer
		}{b, of}, length)
		return
	}
	resp.SetBodyReader(b, length)
}

// coded gives the body in a coding as well, if that is kept. If it is not, this answer is encoded
// while it is sent, and the coded form is made beside it, once.
func (l *layer) coded(req *conn.Request, resp *conn.Response, o *cachestore.Object, c coding.Coding,
	body []byte) {
	form := int(c) - int(coding.Identity) - 1
	at := l.store.at.Load()
	if form < 0 || form >= cachestore.Forms || at == nil {
		return
	}
	b, mine := at.Form(o, form)
	if b != nil {
		resp.Layer().SetEncoded(c.String(), b)
		return
	}
	if mine {
		level := l.coding.Level
		req.Loop().Layer().StartGoroutine(func() { at.SetForm(o, form, encode(c, level, body)) })
	}
}

// encode returns body in a coding, nil if that is no shorter.
func encode(c coding.Coding, level int, body []byte) []byte {
	e := coding.NewEncoder(c, level)
	if e == nil {
		return nil
	}
	defer e.Release()
	var out bytes.Buffer
	e.Begin(&out)
	const piece = 16 << 10
	for rest := body; len(rest) > 0; {
		n := min(piece, len(rest))
		if _, err := e.Write(rest[:n]); err != nil {
			return nil
		}
		rest = rest[n:]
	}
	if e.Close() != nil || out.Len() >= len(body) {
		return nil
	}
	return bytes.Clone(out.Bytes())
}

// followed returns Cache-Status of an answer on its way.
func followed(why rfc9111.Forward, stored, collapsed bool) string {
	i := int(why) << 2
	if stored {
		i |= 2
	}
	if collapsed {
		i |= 1
	}
	return follows[i]
}

var follows = func() (texts [(rfc9111.ForwardPartial + 1) << 2]string) {
	for i := range texts {
		s := rfc9111.CacheStatus{Cache: rfc9111.Name, Forward: rfc9111.Forward(i >> 2), Stored: i&2 > 0,
			Collapsed: i&1 > 0}
		texts[i] = string(s.Append(nil))
	}
	return texts
}()

// follow answers with what comes. f is nil where another request has asked for it.
func (l *layer) follow(req *conn.Request, resp *conn.Response, q *fetch, reader *cachestore.Reader,
	k answer, f *fill) int {
	use := conn.CacheCollapsed
	var fields []conn.Field
	if f == nil {
		fields = k.list()
	} else {
		fields = f.fields
		use = conn.CacheMiss
		if q.old != nil {
			use = conn.CacheExpired
		}
		req.Layer().TookUpstream(f.background)
	}
	req.Layer().SetCache(use)
	h := resp.Header()
	before := h.Len()
	h.Grow(len(fields) + 2)
	for _, field := range fields {
		h.Add(field.Name, field.Value)
	}
	if f == nil { // the origin was asked by another one, and before
		h.Add(rfc9111.FieldAge, decimal(int64(k.fresh.Now(l.store.now(req))/time.Second)))
	}
	h.Add(rfc9111.FieldCacheStatus, followed(q.why, k.shared, f == nil))
	resp.Layer().MarkValid(before)
	s := planResponse{answer: k, size: reader.Length(), place: ofReader}
	piped := f != nil && f.pipe != nil
	if piped {
		s.size = f.pipe.length
	}
	complete := f != nil && f.object != nil && len(f.trailer) == 0
	if complete {
		s.size = f.object.Size()
	}
	asked := l.planRequest(req, resp, q.request)
	var p plan
	p.answer(&asked, &s, use)
	if p.relays {
		resp.Layer().Relay(p.status, p.reason)
	}
	if p.status != s.Status {
		p.amend(h, &s)
	}
	if piped {
		return f.passTo(req, resp, reader, &p)
	}
	if p.body == noBody {
		unread(reader, f)
		return p.status
	}
	if complete {
		o := f.object
		if body, ok := o.Body(); ok {
			unread(reader, f)
			var of io.Closer
			if o.Long() {
				of = o.Use(req.Thread.Layer().Client(), false)
			}
			setBody(resp, body[p.part.Start:][:p.part.Length], of)
			return p.status // it is coded when it is asked for again
		}
	}
	reader.Bind(req.Thread, -1)
	b := &body{r: reader, fill: cmp.Or(f, k.filling()), skip: p.part.Start, left: p.part.Length}
	if f != nil {
		b.req, b.resp, b.leads = req, resp, true
	}
	resp.SetBodyReader(b, p.part.Length)
	return p.status
}

// passTo sends an answer that is not kept, as the plan says.
func (f *fill) passTo(req *conn.Request, resp *conn.Response, reader *cachestore.Reader,
	p *plan) int {
	_ = reader.Close()
	q := f.pipe
	switch {
	case p.body == noBody:
		_ = q.Close()
		f.release()
	case q.content != nil:
		resp.SetBody(q.content[p.part.Start:][:p.part.Length])
		f.release()
	default:
		q.client = req.Thread
		resp.SetBodyReader(&body{r: q, fill: f, req: req, resp: resp, skip: p.part.Start,
			left:  p.part.Length,
			leads: true}, p.part.Length)
	}
	return p.status
}

// unread closes a reader of what need not be read. f is follow's.
func unread(reader *cachestore.Reader, f *fill) {
	_ = reader.Close()
	if f != nil {
		f.release()
	}
}

// content is where the content of an answer that comes is read: in the store, or from a pipe.
type content interface {
	io.ReadCloser
	Skip(n int64) (int64, error)
}

// body reads an answer that comes, or a part of it.
type body struct {
	r    content
	fill *fill          // nil: all has come
	req  *conn.Request  // that has begun fill; nil: another one has
	resp *conn.Response // that gets the trailer, nil: none does
	skip int64          // bytes in front of the part
	left int64          // of the part; -1: unknown
	done bool           // all was read

	leads  bool // fill was begun for this one
	closed bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	for b.skip > 0 {
		n, err := b.r.Skip(b.skip)
		b.skip -= n
		if err != nil {
			return 0, err
		}
	}
	n, err := b.r.Read(p)
	if b.left >= 0 {
		n = int(min(int64(n), b.left))
		b.left -= int64(n)
	}
	b.done = b.done || b.left == 0 || err == io.EOF
	if err == io.EOF && b.resp != nil {
		for _, f := range b.fill.trailer {
			b.resp.AddTrailer(f.Name, f.Value)
		}
	}
	return n, err
}

// Close implements io.Closer. A client that has not got all has left.
func (b *body) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	if b.leads {
		b.req.Layer().TookUpstream(b.fill.background) // it has said more since its head came
	}
	err := b.r.Close()
	switch {
	case !b.done && b.left != 0 && b.fill != nil:
		b.fill.left()
	case b.leads:
		b.fill.release()
	}
	return err
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
