package conn

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/lwango/lwango/internal/wire/byteranges"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/mediatype"
)

// Precondition is for what has a state that clients may know: an entity tag such as `"v7"`, with
// its quotes, or `W/"v7"`, the time of its last change, or both. It sets ETag and Last-Modified,
// and compares them with the request's If-None-Match and its kin (RFC 9110 section 13). It returns
// 0 if the handler is to go on, and else the status to return: 304 if a GET or HEAD would get what
// the client has, 412 if the state is another one than the client wants to change or to read.
//
//	if status := resp.Precondition(item.ETag(), item.Changed); status != 0 {
//		return status
//	}
//	return resp.JSON(200, item)
//
// A handler that changes something calls it before the change, with the tag of the present state;
// its answer has the new state, and so sets ETag itself. "" and the zero time stand for none: with
// both, If-Match fails, since there is nothing. A tag without its quotes is logged, and is none.
func (w *Response) Precondition(etag string, modified time.Time) int {
	req := w.req
	if req.over() {
		return 0
	}
	if etag != "" && !http1.ValidETag(etag) {
		w.logFailure("conn: entity tag", errors.New("not a quoted string: "+clipText(etag)))
		etag = ""
	}
	v := w.validators(etag, modified)
	read := req.Method() == http.MethodGet || req.Method() == http.MethodHead
	status := http1.Precondition(req.Layer(), v, read)
	switch {
	case status == http.StatusPreconditionFailed:
		w.header.dropContent()
		return status
	case !read:
		return status
	}
	if etag != "" {
		w.header.Set("ETag", etag)
	}
	if v.Dated {
		w.header.Set("Last-Modified", string(http1.AppendDate(nil, time.Unix(v.Modified, 0))))
	}
	return status
}

// validators makes the form that package http1 compares. A time in the future counts as now: a
// Last-Modified later than Date must not be sent (RFC 9110 section 8.8.2.1).
func (w *Response) validators(etag string, modified time.Time) http1.Validators {
	v := http1.Validators{ETag: etag}
	if !modified.IsZero() && modified.Unix() != 0 {
		v.Modified, v.Dated = min(modified.Unix(), w.x.req.Thread.Loop().Time().Unix()), true
	}
	return v
}

func (r *Request) has(name string) bool {
	_, ok := r.Layer().HeaderView(name)
	return ok
}

// ServeContent answers with size bytes of content, or the ranges of it that the client asks for
// (RFC 9110 section 14), and returns the status: 200, 206, 304, 412 or 416. An ETag that the
// handler has set, and modified, unless that is the zero time, are the state that Precondition
// compares. The media type is Content-Type, or else the type of the name's extension.
//
// An *os.File, or another File, is sent by sendfile. Other content is read on the request's thread,
// which may wait in ReadAt for what lwango can wait for; what blocks, such as a slow disk, holds up
// the loop. Content that is an io.Closer is closed when it is no longer needed. If it turns out to
// be shorter, the connection is cut. Where there is a Content-Encoding, several ranges are answered
// with all of the content.
//
// For files by name there is package handlers/servefiles, also for those of an fs.FS.
func (w *Response) ServeContent(name string, modified time.Time, content io.ReaderAt,
	size int64) int {
	if w.over() {
		closeContent(content)
		return 0
	}
	if size < 0 {
		closeContent(content)
		return w.Error(http.StatusInternalServerError,
			errors.New("conn: ServeContent of a negative size"))
	}
	if status := w.Precondition(w.header.Get("ETag"), modified); status != 0 {
		closeContent(content)
		return status
	}
	w.implyType(mediatype.Of(name, nil))
	w.header.Set("Accept-Ranges", "bytes")
	req := w.req
	// Range is defined for GET alone (RFC 9110 section 14.2).
	if req.has("Range") && req.Method() == http.MethodGet {
		if status := w.ranges(modified, content, size); status != 0 {
			return status
		}
	}
	w.setPiece(content, 0, size)
	return http.StatusOK
}

// ranges answers a Range field. It returns 0, and content is still open, if the field is to be
// ignored.
func (w *Response) ranges(modified time.Time, content io.ReaderAt, size int64) int {
	h := w.req.Header()
	v := w.validators(w.header.Get("ETag"), modified)
	// A layer may encode the whole. A date does not tell the codings apart.
	negotiated := len(w.hooks) > 0
	values := h.Values("Range")
	if len(values) != 1 || !http1.RangeApplies(w.req.Layer(), v, w.x.req.Thread.Loop().Time(),
		negotiated) {
		return 0
	}
	ranges, err := http1.ParseRange(values[0], size)
	switch {
	case errors.Is(err, http1.ErrRangeUnsatisfiable):
		closeContent(content)
		w.header.dropContent()
		w.header.Set("Content-Range", byteranges.ContentRange(http1.Range{}, size))
		return http.StatusRequestedRangeNotSatisfiable
	case err != nil, len(ranges) > 1 && w.header.Has("Content-Encoding"):
		return 0 // a client would decode the body with its parts, which is not encoded
	case len(ranges) == 1:
		w.header.Set("Content-Range", byteranges.ContentRange(ranges[0], size))
		w.setPiece(content, ranges[0].Start, ranges[0].Length)
	default:
		body, boundary, length := byteranges.New(content, ranges, w.header.Get("Content-Type"), size)
		w.header.Del("Content-Range") // each part has its own (RFC 9110 section 15.3.7.2)
		w.header.Set("Content-Type", "multipart/byteranges; boundary="+boundary)
		w.SetBodyReader(body, length)
	}
	return http.StatusPartialContent
}

// setPiece makes n bytes of content from off on the body.
func (w *Response) setPiece(content io.ReaderAt, off, n int64) {
	if f, ok := content.(File); ok {
		w.SetBodyFile(f, off, n)
		return
	}
	w.SetBodyReader(&section{io.NewSectionReader(content, off, n), content}, n)
}

// section is a part of a content, and closes it.
type section struct {
	*io.SectionReader
	of io.ReaderAt
}

func (s *section) Close() error {
	closeContent(s.of)
	return nil
}

func closeContent(content io.ReaderAt) {
	if c, ok := content.(io.Closer); ok {
		_ = c.Close()
	}
}
