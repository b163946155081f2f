package conn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
)

// through lets the Handler answer to a response of its own, which goes out through the writer that
// the middleware has made.
func (a *around) through(to http.ResponseWriter) {
	x, t := a.req.x, a.req.Thread
	inner := new(Response)
	inner.begin(x)
	inner.req = a.resp.req
	v := &through{carrier: x.via, of: a, to: to, inner: inner}
	inner.via = v
	inner.header.merge(to.Header())
	defer func() { // also if the Handler panics
		if inner.phase != hijacked {
			inner.discard()
			inner.phase = complete
		}
	}()
	status := a.next.handler(a.req, inner)
	if hasTakenOver(t) || inner.phase == hijacked {
		return
	}
	if inner.phase == open && status == 0 && inner.empty() {
		v.setHeader(inner.header.fields) // the rest is left to the middleware
		return
	}
	if len(inner.pages) > 0 {
		status = x.errorPage(inner, status)
		if hasTakenOver(t) {
			return
		}
	}
	inner.finish(status)
	if v.aborted {
		panic(http.ErrAbortHandler)
	}
}

// through carries the answer of a Handler to a ResponseWriter that a middleware has made. All else
// is the request's own carrier's.
type through struct {
	carrier
	of      *around
	to      http.ResponseWriter
	inner   *Response
	status  int // of the head that is still to be written; 0: none is
	err     error
	aborted bool
}

// start writes the head, if it has not been written. It is called where the middleware runs.
func (v *through) start() {
	if status := v.status; status != 0 {
		v.status = 0
		v.to.WriteHeader(status)
	}
}

// setHeader makes the fields those of the ResponseWriter.
func (v *through) setHeader(fields []Field) {
	h := v.to.Header()
	clear(h)
	for i := range fields {
		name := textproto.CanonicalMIMEHeaderKey(fields[i].Name)
		h[name] = append(h[name], fields[i].Value)
	}
}

// head implements carrier.
func (v *through) head(p *plan) {
	v.setHeader(p.fields)
	h := v.to.Header()
	if p.contentType != "" {
		h.Set("Content-Type", p.contentType)
	} else if _, ok := h["Content-Type"]; !ok && v.inner.manner != sniffed {
		h["Content-Type"] = nil // none is to be found out
	}
	if p.extent == byLength && h["Content-Length"] == nil && (p.bare || v.inner.kind != gathered) {
		h.Set("Content-Length", strconv.FormatInt(p.length, 10))
	}
	if p.close {
		v.of.resp.close = true
	}
	if v.status = p.status; v.inner.manner == native && p.status >= 400 && v.inner.size == 0 {
		v.of.bare = p.status
	}
	if p.bare { // nothing follows
		v.of.call(v.start)
	}
}

// data implements carrier.
func (v *through) data(p []byte) error {
	v.of.call(func() {
		v.start()
		if _, err := v.to.Write(p); v.err == nil {
			v.err = err
		}
	})
	return v.err
}

// file implements carrier. The ReadFrom of the writer, if it leads to the server's own, sends the
// file by sendfile(2) where the middleware runs on the thread.
func (v *through) file(f File, off, n int64) error {
	v.of.call(func() {
		v.start()
		if n == 0 || v.err != nil {
			return
		}
		var sent int64
		_, direct := v.to.(io.ReaderFrom)
		if s, ok := f.(seekable); ok && direct {
			if _, v.err = s.Seek(off, io.SeekStart); v.err == nil {
				sent, v.err = io.Copy(v.to, io.LimitReader(f.(io.Reader), n))
			}
		} else {
			sent, v.err = io.Copy(v.to, newFileReader(v.of.req.Thread, f, off, n))
		}
		if v.err == nil && sent < n {
			v.err = io.ErrUnexpectedEOF
		}
	})
	if v.err != nil {
		return v.abort(v.err)
	}
	return nil
}

// end implements carrier.
func (v *through) end(trailer []Field) {
	if v.status == 0 && len(trailer) == 0 {
		return
	}
	v.of.call(func() {
		v.start()
		for _, f := range trailer {
			v.to.Header().Add(http.TrailerPrefix+f.Name, f.Value)
		}
	})
}

// mayFlush reports why the writer cannot flush.
func (v *through) mayFlush() error {
	for w := v.to; ; {
		switch t := w.(type) {
		case interface{ FlushError() error }, http.Flusher:
			return nil
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return fmt.Errorf("conn: Flush through the %T of a middleware, which has neither Flush nor "+
				"Unwrap: %w", v.to, http.ErrNotSupported)
		}
	}
}

// flush implements carrier. A writer that cannot flush sends what it has in the end.
func (v *through) flush() error {
	v.of.call(func() {
		v.start()
		if err := http.NewResponseController(v.to).Flush(); v.err == nil &&
			!errors.Is(err, http.ErrNotSupported) {
			v.err = err
		}
	})
	return v.err
}

// abort implements carrier.
func (v *through) abort(err error) error {
	v.aborted = true
	if v.err == nil {
		v.err = err
	}
	return v.err
}

// writeError implements carrier.
func (v *through) writeError() error {
	if v.err != nil {
		return v.err
	}
	return v.carrier.writeError()
}

// sent implements carrier.
func (v *through) sent(n int64) int64 { return n }

// direct implements carrier.
func (v *through) direct() direct { return nil }

// upgrade implements carrier.
func (v *through) upgrade(p *plan) {
	v.head(p)
	v.of.call(v.start)
}

// hijack implements carrier.
func (v *through) hijack() (c net.Conn, r *bufio.Reader, err error) {
	v.of.call(func() {
		v.of.hijacks = true
		var rw *bufio.ReadWriter
		if c, rw, err = http.NewResponseController(v.to).Hijack(); err == nil {
			r = rw.Reader
		}
		v.of.hijacks = false
	})
	if errors.Is(err, http.ErrNotSupported) {
		err = fmt.Errorf("conn: Hijack through the %T of a middleware, which has neither Hijack nor "+
			"Unwrap: %w", v.to, http.ErrNotSupported)
	}
	if err == nil {
		v.inner.phase = hijacked
		for _, f := range v.of.resp.header.fields { // what layers and the configuration add to a 101
			if !has(v.inner.header.fields, f.Name) {
				v.inner.header.Add(f.Name, f.Value)
			}
		}
	}
	return c, r, err
}

// detach implements carrier.
func (v *through) detach() (net.Conn, *bufio.Reader, error) {
	return nil, nil, fmt.Errorf("conn: an http.Handler off the loop cannot take over a connection "+
		"through the %T of a middleware: %w", v.to, http.ErrNotSupported)
}
