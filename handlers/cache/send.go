package cache

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/byteranges"
	"github.com/lwango/lwango/internal/cachestore"
	"github.com/lwango/lwango/internal/coding"
	"github.com/lwango/lwango/internal/compression"
	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/rfc9111"
)

// revalidated is Cache-Status of an answer that is kept, and that its origin has said to be true.
var revalidated = func() string {
	s := rfc9111.CacheStatus{Cache: rfc9111.Name, Forward: rfc9111.ForwardStale,
		FwdStatus: http.StatusNotModified, Stored: true}
	return string(s.Append(nil))
}()

// hit answers with what is kept.
func (l *layer) hit(req *conn.Request, resp *conn.Response, o *cachestore.Object, use conn.CacheUse,
	now time.Time) int {
	body, inMemory := o.Body()
	var file *cachestore.File
	var off int64
	if !inMemory && req.Method() == http.MethodGet {
		var err error
		if file, off, err = o.Open(req.Thread); err != nil {
			return l.past(req, resp, rfc9111.ForwardMiss)
		}
	}
	o.Hit()
	k := keptOf(o)
	req.Layer().SetCache(use)
	age, cacheStatus := l.store.aging.texts(k.kept, now, o.Stale())
	h := resp.Header()
	before := h.Len()
	h.Grow(int(k.fields) + 2)
	for text := k.Fields; text != ""; {
		var name, value string
		name, value, text = cutField(text)
		h.Add(name, value)
	}
	h.Add("Age", age)
	if use == conn.CacheRevalidated {
		h.Add("Cache-Status", revalidated)
	} else {
		h.Add("Cache-Status", cacheStatus)
	}
	resp.Layer().Vouch(before) // it was looked at when it came
	size := o.Size()
	if !k.page(size) {
		resp.Layer().Relay(k.Status, k.Reason)
	}
	status, part := k.Status, http1.Range{Length: size}
	if status == http.StatusOK {
		status, part = l.choose(req, resp, k, size, inMemory)
	}
	switch {
	case status == http.StatusNotModified, status == http.StatusRequestedRangeNotSatisfiable,
		status == http.StatusPreconditionFailed:
		if file != nil {
			_ = file.Close()
		}
	case file != nil:
		resp.SetBodyFile(file, off+part.Start, part.Length)
	case !inMemory: // HEAD
		h.Set("Content-Length", decimal(part.Length))
	case part.Length < 0: // several ranges
		l.parts(req, resp, k, o, body)
	default:
		setBody(resp, o, body[part.Start:][:part.Length])
		if status == http.StatusOK {
			l.coded(req, resp, o, k, body)
		}
	}
	return status
}

// setBody makes b, which is of the object's body, the answer's.
func setBody(resp *conn.Response, o *cachestore.Object, b []byte) {
	if of := o.Use(); of != nil {
		resp.Layer().SetBodyOf(b, of)
	} else {
		resp.SetBody(b)
	}
}

// choose evaluates the conditions and the range of a request for an answer of size bytes, of which
// the head has been set. A length of -1 of the range stands for several ones.
func (l *layer) choose(req *conn.Request, resp *conn.Response, k answer, size int64,
	several bool) (status int, part http1.Range) {
	r := req.Layer()
	part = http1.Range{Length: size}
	_, none := r.HeaderView("If-None-Match")
	_, since := r.HeaderView("If-Modified-Since")
	_, ranged := r.HeaderView("Range")
	if !none && !since && !ranged {
		return http.StatusOK, part
	}
	h := req.Header()
	v := http1.Validators{ETag: k.etag.of(k.Fields), Modified: k.modified(), Dated: k.dated}
	if none || since {
		state := v
		if !v.Dated { // it was changed before its Date (RFC 9111 section 4.3.2)
			state.Modified, state.Dated = k.changed, k.changed != 0
		}
		if status := http1.Precondition(r, state, true); status != 0 {
			resp.Layer().Relay(status, "")
			return status, part
		}
	}
	if !ranged || req.Method() != http.MethodGet || size < 0 {
		return http.StatusOK, part
	}
	values := h.Values("Range")
	hooks, _ := resp.Layer().Hooks()
	if len(values) != 1 || !http1.RangeApplies(r, v, l.store.date(req), hooks > 0) {
		return http.StatusOK, part
	}
	ranges, err := http1.ParseRange(values[0], size)
	switch {
	case err == http1.ErrRangeUnsatisfiable:
		status = http.StatusRequestedRangeNotSatisfiable
		for _, name := range [...]string{"Content-Type", "Content-Encoding", "Content-Language", "Last-Modified"} {
			resp.Header().Del(name)
		}
		resp.Header().Set("Content-Range", byteranges.ContentRange(http1.Range{}, size))
	case err != nil, len(ranges) > 1 && (!several || resp.Header().Has("Content-Encoding")):
		return http.StatusOK, part
	case len(ranges) > 1:
		status, part.Length = http.StatusPartialContent, -1
	default:
		status, part = http.StatusPartialContent, ranges[0]
		resp.Header().Set("Content-Range", byteranges.ContentRange(part, size))
	}
	resp.Layer().Relay(status, "")
	return status, part
}

// parts answers with several ranges.
func (l *layer) parts(req *conn.Request, resp *conn.Response, k answer, o *cachestore.Object,
	body []byte) {
	ranges, err := http1.ParseRange(req.Header().Get("Range"), int64(len(body)))
	if err != nil {
		return // choose has parsed it
	}
	b, boundary, length := byteranges.New(bytes.NewReader(body), ranges, k.contentType.of(k.Fields), int64(len(body)))
	resp.Header().Set("Content-Type", "multipart/byteranges; boundary="+boundary)
	resp.Header().Del("Content-Range") // each part has its own (RFC 9110 section 15.3.7.2)
	if of := o.Use(); of != nil {
		resp.SetBodyReader(struct {
			io.Reader
			io.Closer
		}{b, of}, length)
		return
	}
	resp.SetBodyReader(b, length)
}

// coded gives the body in the coding that the client is going to get it in, if that is kept. If it
// is not, this answer is encoded while it is sent, and the coded form is made beside it, once.
func (l *layer) coded(req *conn.Request, resp *conn.Response, o *cachestore.Object, k answer, body []byte) {
	p := l.coding
	if p == nil || k.asItIs || !p.Worth(int64(len(body)), k.contentType.of(k.Fields)) {
		return
	}
	c := compression.Choose(req, p.Order, k.contentType.of(k.Fields))
	if c == coding.Identity {
		return
	}
	form := int(c) - int(coding.Identity) - 1
	if form < 0 || form >= cachestore.Forms {
		return
	}
	at := l.store.at.Load()
	if at == nil {
		return
	}
	b, mine := at.Form(o, form)
	if b != nil {
		resp.Layer().SetEncoded(c.String(), b)
		return
	}
	if mine {
		level := p.Level
		req.Loop().StartGoroutine(func() { at.SetForm(o, form, encode(c, level, body)) })
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
func (l *layer) follow(req *conn.Request, resp *conn.Response, q *fetch, reader *cachestore.Reader, k answer,
	f *fill) int {
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
		req.Layer().TookUpstream(f.errand)
	}
	req.Layer().SetCache(use)
	h := resp.Header()
	before := h.Len()
	h.Grow(len(fields) + 2)
	for _, field := range fields {
		h.Add(field.Name, field.Value)
	}
	if f == nil { // the origin was asked by another one, and before
		h.Add("Age", decimal(int64(k.fresh.Now(l.store.now(req))/time.Second)))
	}
	h.Add("Cache-Status", followed(q.why, k.shared, f == nil))
	resp.Layer().Vouch(before)
	size := reader.Length()
	complete := f != nil && f.object != nil && len(f.trailer) == 0
	if complete {
		size = f.object.Size()
	}
	if !k.page(size) {
		resp.Layer().Relay(k.Status, k.Reason)
	}
	if size == 0 && k.Status != http.StatusOK {
		status := k.Status
		unread(reader, f)
		return status
	}
	status, part := k.Status, http1.Range{Length: size}
	if status == http.StatusOK {
		status, part = l.choose(req, resp, k, size, false)
	}
	switch status {
	case http.StatusNotModified, http.StatusRequestedRangeNotSatisfiable, http.StatusPreconditionFailed:
		unread(reader, f)
		return status
	}
	if complete {
		o := f.object
		if body, ok := o.Body(); ok {
			unread(reader, f)
			setBody(resp, o, body[part.Start:][:part.Length])
			return status // it is coded when it is asked for again
		}
	}
	reader.Bind(req.Thread, -1)
	b := &body{r: reader, fill: cmp.Or(f, k.filling()), skip: part.Start, left: part.Length}
	if f != nil {
		b.req, b.resp, b.leads = req, resp, true
	}
	resp.SetBodyReader(b, part.Length)
	return status
}

// unread closes a reader of what need not be read. f is follow's.
func unread(reader *cachestore.Reader, f *fill) {
	_ = reader.Close()
	if f != nil {
		f.let()
	}
}

// body reads an answer that comes, or a part of it.
type body struct {
	r    *cachestore.Reader
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
		b.req.Layer().TookUpstream(b.fill.errand) // it has said more since its head came
	}
	err := b.r.Close()
	switch {
	case !b.done && b.left != 0 && b.fill != nil:
		b.fill.left()
	case b.leads:
		b.fill.let()
	}
	return err
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
