package conn

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

var errSubrequestBody = errors.New("conn: the answer to a subrequest is too long or takes too long")

// The body of an answer to Subrequest is dropped. It may have as many bytes and take as long: a
// small body is no fault, and another server that has sent all of it keeps its connection.
const (
	maxSubrequestBody = 1 << 20
	maxSubrequestTime = 30 * time.Second
)

// Subrequest lets another handler judge the request: it calls h with a GET for that path, which
// must be a clean one, without a query and a body, and with the header of r except what is about
// the body, conditions, ranges or the connection. It returns the status and the header of h's
// answer; nothing of the answer is sent, and its body is dropped. When Subrequest returns, r is as
// it was, with all of its body, and what h has started and deferred has ended.
//
// The error is ErrNestedSubrequest if r belongs to a subrequest itself, that of a response that is
// not open any more, or, if h has not come to an answer, the reason. h may wait, without a time
// limit: as after KeepWaiting, its waits go on when the client leaves, and this does not cancel the
// context that h gets. For a handler whose wait has failed returns as if it had nothing to say, and
// that must not be taken for an answer.
func (r *Request) Subrequest(path string, h Handler) (status int, header Header, err error) {
	status, header, _, err = r.Layer().SubrequestInMemory(path, "", 0, h)
	return status, header, err
}

// SubrequestInMemory is Subrequest with a query, and it also returns the body of the answer, unless
// most is 0. The body of an answer with 204 or 304 is empty, and one of more than most bytes is an
// error.
func (r RequestLayer) SubrequestInMemory(path, query string, most int, h Handler) (
	status int, header Header, body []byte, err error,
) {
	x := r.x
	switch {
	case x.subrequest != nil:
		return 0, header, nil, ErrNestedSubrequest
	case x.resp.phase != open:
		return 0, header, nil, cmp.Or(refusals[x.resp.phase], ErrComplete)
	}
	x.finishDuplex() // a Duplex of r
	t := r.Thread
	a := &subrequest{carrier: x.via, since: t.Loop().Time(), most: most}
	y := &a.x
	y.c, y.via, y.set, y.subrequest, y.began, y.task = x.c, a, x.set, a, a.since, x.task
	y.req.alter(r.Request, []byte(path), http1.AppendPath(nil, []byte(path)), query, ofThisAlone)
	y.req.x, y.req.head.Method = y, http1.GET
	y.req.body.none(y)
	y.resp.begin(y)
	mark, waiting := t.Mark(), t.KeepWaiting(true)
	defer func() { // also if h panics, or its thread is killed
		y.canceled(nil)
		y.resp.discard()
		y.resp.phase = complete
		y.req.Thread = nil
		t.KeepWaiting(waiting)
	}()
	err = t.Scope(func() error {
		status = h(&y.req, &y.resp)
		err := t.Join() // before the deferred calls, which may start threads, too
		y.finishDuplex()
		if err == nil && most > 0 {
			status = a.complete(status)
		}
		t.RunDeferred(mark)
		return cmp.Or(err, a.failed)
	})
	w := &y.resp
	switch {
	case err != nil:
		return 0, header, nil, err
	case w.phase == aborted:
		return 0, header, nil, errAborted
	case w.header.firstBad() != nil:
		return 0, header, nil, ErrBadField
	}
	if w.HeadSent() {
		status = w.status
	}
	if status = cmp.Or(status, w.early); status == 0 && t.Gone() { // it may have given up
		return 0, header, nil, loop.ErrClientGone
	}
	return cmp.Or(status, 200), w.header, a.body, nil
}

// subrequest is the exchange of a handler that judges another request, on that request's thread,
// and its carrier. There is no body to read, and nothing is sent. A Duplex waits for the client of
// the request.
type subrequest struct {
	carrier // of the request
	x       exchange

	since   time.Time
	dropped int64 // bytes of the answer

	most   int    // bytes of body; 0: the answer's is dropped
	body   []byte // of the answer
	failed error  // why there is no answer, if a handler takes no notice of that
}

// complete adds the rest of an answer whose handler has returned that status, and returns the
// answer's.
func (a *subrequest) complete(status int) int {
	w := &a.x.resp
	switch {
	case w.phase == streamed:
		w.finishStream(status)
	case w.phase != open, status == 0 && w.early == 0 && w.x.req.Thread.Gone():
		return status // there is no answer
	default:
		w.finishWhole(status)
	}
	return w.status
}

// keep takes a piece of a body that is wanted.
func (a *subrequest) keep(p []byte) error {
	if len(p) > a.most-len(a.body) {
		a.failed = errSubrequestBody
	}
	if a.failed == nil {
		a.body = append(a.body, p...)
		a.failed = a.drop(0) // which is for the time
	}
	return a.failed
}

// keepFile is keep for a part of a file.
func (a *subrequest) keepFile(f File, off, n int64) error {
	if n > int64(a.most) {
		a.failed = errSubrequestBody
		return errSubrequestBody
	}
	p := make([]byte, n)
	for got := 0; got < len(p); {
		m, err := unix.Pread(int(f.Fd()), p[got:], off+int64(got))
		if err == nil && m == 0 {
			err = io.ErrUnexpectedEOF // the file has become shorter
		}
		if err != nil && err != unix.EINTR {
			a.failed = err
			return err
		}
		got += max(m, 0)
	}
	return a.keep(p)
}

// drop takes n bytes of the answer's content.
func (a *subrequest) drop(n int64) error {
	a.dropped += n
	a.carrier.spend(0) // let others run meanwhile
	if a.dropped > maxSubrequestBody || a.x.req.Thread.Loop().Time().Sub(a.since) > maxSubrequestTime {
		return errSubrequestBody
	}
	return nil
}

func (a *subrequest) data(p []byte) error {
	if a.most > 0 {
		return a.keep(p)
	}
	return a.drop(int64(len(p)))
}

func (a *subrequest) file(f File, off, n int64) error {
	if a.most > 0 {
		return a.keepFile(f, off, n)
	}
	return a.drop(n)
}

func (a *subrequest) abort(err error) error {
	a.failed = cmp.Or(a.failed, err)
	return err
}

func (a *subrequest) readBody([]byte, bool) (int, error)       { return 0, io.EOF }
func (a *subrequest) awaitBody(bool) error                     { return io.EOF }
func (a *subrequest) arrived() bool                            { return false }
func (a *subrequest) readExpired() bool                        { return false }
func (a *subrequest) keepTrailer()                             {}
func (a *subrequest) trailer(func(name, value []byte))         {}
func (a *subrequest) interim(int, []Field)                     {}
func (a *subrequest) head(*plan)                               {}
func (a *subrequest) end([]Field)                              {}
func (a *subrequest) flush() error                             { return nil }
func (a *subrequest) writeError() error                        { return a.failed }
func (a *subrequest) setReadDeadline(time.Time)                {}
func (a *subrequest) setWriteDeadline(time.Time)               {}
func (a *subrequest) setMinRate(int)                           {}
func (a *subrequest) setBodyTimeout(time.Duration)             {}
func (a *subrequest) paces() (_, _ *stream.Pace)               { return nil, nil }
func (a *subrequest) setMaxRate(int64) int64                   { return 0 }
func (a *subrequest) slim()                                    {}
func (a *subrequest) upgrade(*plan)                            {}
func (a *subrequest) hijack() (net.Conn, *bufio.Reader, error) { return nil, nil, errNoConnection }
func (a *subrequest) detach() (net.Conn, *bufio.Reader, error) { return nil, nil, errNoConnection }

// ReplaceHeader gives the request these fields of that name, maybe none, in place of those that the
// client has sent, for all handlers that get the request from here on. Fields whose names differ
// only by "-" and "_" are removed, too: to CGI and its kin they are the same variable. Body.Trailer
// leaves out such fields, since a program may merge them with the header. Views and strings that
// were taken before stay as they are. Name and values must be valid (see Header.Set).
func (r RequestLayer) ReplaceHeader(name string, values ...string) {
	fields := make([]Field, len(values))
	for i, value := range values {
		fields[i] = Field{Name: name, Value: value}
	}
	r.ReplaceHeaders([]string{name}, fields)
}

// ReplaceHeaders is ReplaceHeader for several names: the request gets fields, whose names are among
// names, in place of all that it has of these names. It copies the head once, and keeps names,
// which must not change while the request lasts.
func (r RequestLayer) ReplaceHeaders(names []string, fields []Field) {
	if r.over() || len(names) == 0 {
		return
	}
	kept := make([]http1.Field, 0, len(r.head.Fields)+len(fields))
	for _, f := range r.head.Fields {
		if !sameAsOne(f.Name.Of(r.raw), names) {
			kept = append(kept, f)
		}
	}
	if r.listed {
		r.header.fields = slices.DeleteFunc(slices.Clone(r.header.fields),
			func(f Field) bool { return sameAsOne(f.Name, names) })
	}
	if len(fields) > 0 { // a copy: what lies behind the head is not the request's
		size := len(r.raw)
		for _, f := range fields {
			size += len(f.Name) + len(f.Value)
		}
		raw := append(make([]byte, 0, size), r.raw...)
		add := func(s string) http1.Span {
			from := len(raw)
			raw = append(raw, s...)
			return http1.Span{Start: uint32(from), End: uint32(len(raw))}
		}
		for _, f := range fields {
			kept = append(kept, http1.Field{Name: add(f.Name), Value: add(f.Value)})
			if r.listed {
				r.header.Add(f.Name, f.Value)
			}
		}
		r.raw, r.text = raw, ""
	}
	r.head.SetFields(r.raw, kept)
	if r.replaced == nil {
		r.replaced = slices.Clip(names)
	} else {
		r.replaced = append(r.replaced, names...)
	}
}

// sameAsOne reports whether a name is one of names, or the same to CGI and its kin.
func sameAsOne[S string | []byte](name S, names []string) bool {
	for _, s := range names {
		if http1.SameVariable(name, s) {
			return true
		}
	}
	return false
}

// Replaced reports whether ReplaceHeader has replaced the fields of that name, so that what the
// header says there comes from the server.
func (r RequestLayer) Replaced(name string) bool {
	return sameAsOne(name, r.replaced)
}

// HeadersReplaced reports whether ReplaceHeader has replaced fields by which an application may
// choose its answer, such as those of who the user is: all but those of conditions and ranges.
func (r RequestLayer) HeadersReplaced() bool {
	return slices.ContainsFunc(r.replaced, func(name string) bool { return !ofThisAlone(name) })
}

// IsSubrequest reports whether r belongs to a Subrequest: its answer is a judgement on another
// request.
func (r RequestLayer) IsSubrequest() bool { return r.x.subrequest != nil }
