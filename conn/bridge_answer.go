package conn

import (
	"cmp"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lwango/lwango/internal/wire/http1"
)

// This file makes a Response the outlet of an httpWriter.

// inform sends an interim response, except to a client of HTTP/1.0, which does not know them (RFC
// 9110 section 15.2).
func (w *Response) inform(status int, h http.Header) {
	_ = w.Inform(status, &Header{fields: appendFields(nil, h)})
}

// open decides the head. A field that a Handler in front has set stays, unless h has one of that
// name.
func (w *Response) open(status int, h http.Header) {
	w.manner, w.early = relayed, status
	_, typed := h["Content-Type"]
	if !typed && !w.header.Has("Content-Type") &&
		h.Get("Content-Encoding") == "" && h.Get("Transfer-Encoding") == "" {
		w.manner = sniffed
	}
	_, w.dated = h["Date"]
	if w.header.Len() > 0 {
		for name := range h {
			w.header.Del(name)
		}
	}
	w.header.fields = appendFields(w.header.fields, h)
	if status == http.StatusNotModified {
		w.header.Del("Content-Type") // there is no body to describe
	}
}

// end is called when the http.Handler has returned. What is left is sent when the Handler has
// returned, too.
func (w *Response) end(trailer []Field) { w.trailer = trailer }

func (w *Response) setReadDeadline(t time.Time) { w.via.setReadDeadline(t) }

// appendFields appends the fields of h, sorted by name, without what must not be sent.
func appendFields(fields []Field, h http.Header) []Field {
	n := len(fields)
	for name, values := range h {
		if http1.ValidToken(name) { // http.TrailerPrefix is none
			fields = appendValues(fields, name, values)
		}
	}
	if len(h) > 1 {
		slices.SortStableFunc(fields[n:], func(a, b Field) int {
			return cmp.Compare(a.Name, b.Name)
		})
	}
	return fields
}

// appendValues appends a field for each value. A control character, which might end the line,
// becomes a space.
func appendValues(fields []Field, name string, values []string) []Field {
	for _, v := range values {
		if !http1.ValidFieldValue(v) {
			v = strings.TrimSpace(strings.Map(func(r rune) rune {
				if r < ' ' && r != '\t' || r == 0x7f {
					return ' '
				}
				return r
			}, v))
		}
		fields = append(fields, Field{name, v})
	}
	return fields
}

// seekable is an *os.File, or the type that its WriteTo, which io.Copy calls, hides it in.
type seekable interface {
	File
	io.Seeker
	Stat() (fs.FileInfo, error)
}

// regular returns the regular file that src reads, its position, and how many bytes are to be read;
// nil and 0 if src reads no regular file.
func regular(src io.Reader) (f seekable, off, n int64) {
	n = 1<<63 - 1
	if limited, ok := src.(*io.LimitedReader); ok {
		src, n = limited.R, limited.N
	}
	f, _ = src.(seekable)
	if f == nil {
		return nil, 0, 0
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, 0, 0
	}
	off, err = f.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, 0, 0
	}
	return f, off, min(n, info.Size()-off)
}

// beginStream sends the head, if it has not gone out, and what was gathered of the body.
func (w *Response) beginStream() error {
	if err := w.writable(); err != nil {
		return err
	}
	if err := w.stream(w.buf); err != nil {
		return err
	}
	w.buf = w.buf[:0]
	return nil
}

// sendPart sends n bytes of f from off on as part of a streamed body, behind beginStream, as if
// they were read from src. The body has no encoder.
func (w *Response) sendPart(f seekable, off, n int64, src io.Reader) (int64, error) {
	if !w.plan.bare {
		if w.size >= 0 {
			if n > w.left {
				return 0, ErrWroteTooMuch
			}
			w.left -= n
		}
		if err := w.via.file(f, off, n); err != nil {
			return 0, err // how much of it has gone out is unknown
		}
		w.bytes += n
	}
	if limited, ok := src.(*io.LimitedReader); ok {
		limited.N -= n
	}
	_, err := f.Seek(off+n, io.SeekStart)
	return n, err
}
