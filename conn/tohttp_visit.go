package conn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/wire/http1"
)

const visitBuffer = 16 << 10

// visit is a request of net/http to a handler on a loop.
type visit struct {
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	conn    *net.UnixConn // to the handler
	in      *bufio.Reader // from conn
	stay    func() bool   // the end of the request's context does not concern conn any more
	upload  *upload       // nil: the request has no body

	headed bool // a final head is on its way
	closes bool // the answer says Connection: close
}

// end closes the connection to the handler, and ends the goroutine.
func (v *visit) end() {
	_ = v.conn.Close()
	if v.upload != nil {
		v.upload.end(0)
	}
}

// serve passes the answer on, and reports whether it was all there.
func (v *visit) serve() bool {
	for {
		resp, err := http.ReadResponse(v.in, v.r)
		if err != nil {
			_, lost := errors.AsType[*net.OpError](err)
			if !lost && !errors.Is(err, io.ErrUnexpectedEOF) {
				slog.Error("conn: a handler under net/http did not answer in HTTP/1.1",
					"error", err, "target", v.r.RequestURI)
			}
			return false
		}
		switch {
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return v.upgrade(resp)
		case resp.StatusCode >= 200:
			return v.answer(resp)
		}
		if v.upload.touches() {
			continue // two goroutines must not write the header, and the client can do without
		}
		h := v.w.Header()
		before := maps.Clone(h)
		maps.Copy(h, resp.Header)
		v.w.WriteHeader(resp.StatusCode)
		clear(h)
		maps.Copy(h, before)
		if resp.StatusCode == http.StatusContinue && v.upload != nil {
			v.upload.proceed()
		}
	}
}

// header puts the fields of resp into the answer's header, in the place of those that handlers
// around this one have set.
func (v *visit) header(resp *http.Response) http.Header {
	h := v.w.Header()
	for name, values := range resp.Header {
		switch name {
		case "Connection", "Keep-Alive":
		default:
			h[name] = values
		}
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // net/http would guess one
	}
	return h
}

// answer sends a final response.
func (v *visit) answer(resp *http.Response) bool {
	cut := v.upload.touches() && !v.upload.end(uploadLinger)
	h := v.header(resp)
	if (resp.Close || cut) && v.r.ProtoMajor == 1 {
		v.closes = true
		h.Set("Connection", "close")
	}
	announced := make(http.Header)
	for name := range resp.Trailer {
		announced[name] = nil
		h.Add("Trailer", name)
	}
	v.headed = true
	v.w.WriteHeader(resp.StatusCode)
	buf := buffers.Get().(*[streamAt]byte)
	defer buffers.Put(buf)
	for {
		// One byte may be a part of the line end behind a chunk: the reader would take the rest of it
		// and wait for the next chunk.
		if v.in.Buffered() < 2 && resp.Body != http.NoBody {
			_ = v.control.Flush() // the handler takes its time
			if v.upload != nil {
				v.upload.proceed() // perhaps it reads, and behind a head there is no 100
			}
		}
		n, err := resp.Body.Read(buf[:])
		if n > 0 {
			if _, err := v.w.Write(buf[:n]); err != nil {
				return false // the client has left
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil { // the handler has cut its answer
			_ = v.control.Flush() // what has come is the client's
			return false
		}
	}
	if len(resp.Trailer) > len(announced) {
		_ = v.control.Flush() // a short answer would not go out in chunks
	}
	for name, values := range resp.Trailer {
		if _, ok := announced[name]; !ok {
			name = http.TrailerPrefix + name
		}
		h[name] = values
	}
	return true
}

// upgrade connects the client with the handler, which has taken over its end. A request with a body
// that has not come whole cannot be upgraded: net/http still reads it. Nor can one of which the
// handler lacks a part: it would take for that what the client sends next.
func (v *visit) upgrade(resp *http.Response) bool {
	if v.upload != nil && (!v.upload.end(uploadLinger) || v.upload.lost) {
		return false
	}
	v.headed = true
	h := v.header(resp)
	client, buffered, err := v.control.Hijack()
	if err != nil {
		clear(h)
		code := http.StatusNotImplemented
		http.Error(v.w, http.StatusText(code), code)
		return true
	}
	v.stay() // the half-close of a hijacked connection also ends the context
	var back sync.WaitGroup
	defer back.Wait()
	defer v.conn.Close()
	defer client.Close()
	h["Connection"] = resp.Header["Connection"]
	head := appendStatusLine(nil, resp.StatusCode, "")
	for _, f := range appendFields(nil, h) {
		head = http1.AppendField(head, f.Name, f.Value)
	}
	if !tell(client, append(head, "\r\n"...)) {
		return true
	}
	back.Go(func() {
		if _, err := io.Copy(v.conn, buffered.Reader); err != nil {
			_ = v.conn.Close()
			return
		}
		_ = v.conn.CloseWrite()
	})
	buf := make([]byte, visitBuffer)
	for {
		n, err := v.in.Read(buf)
		if n > 0 && !tell(client, buf[:n]) || err != nil {
			return true
		}
	}
}

// tell writes to a client that has been upgraded. Nothing else limits it: when the handler has
// closed its end of the connection, there is no other sign of that while a write waits.
func tell(client net.Conn, p []byte) bool {
	_ = client.SetWriteDeadline(time.Now().Add(defaultLimits.WriteTimeout))
	_, err := client.Write(p)
	return err == nil
}

// uploadLinger is for how long the rest of a body is still read, once the answer is there, so that
// a client that writes all of it before it reads gets the answer. It is what net/http would wait
// for at most in this place, see closeWriteAndWait there.
const uploadLinger = 500 * time.Millisecond

// upload is the body on its way to the handler, by a goroutine of its own.
type upload struct {
	*visit
	proceed func()        // the handler wants the body
	wanted  chan struct{} // closed by proceed
	over    chan struct{} // is closed when nobody wants it any more
	done    chan struct{} // is closed when the goroutine has ended

	// The goroutine's until done is closed.
	whole bool // it has read all of the body
	lost  bool // the handler has not taken all of it in time, and has not closed its end either
}

func newUpload(v *visit) *upload {
	u := &upload{visit: v, wanted: make(chan struct{}), over: make(chan struct{}),
		done: make(chan struct{})}
	u.proceed = sync.OnceFunc(func() { close(u.wanted) })
	if !v.r.ProtoAtLeast(1, 1) || !strings.EqualFold(v.r.Header.Get("Expect"), "100-continue") {
		u.proceed() // otherwise the first read would make net/http ask for the body
	}
	// Otherwise net/http reads the body to its end before it sends the answer's first byte.
	_ = v.control.EnableFullDuplex()
	go u.run()
	return u
}

// run sends the body.
func (u *upload) run() {
	defer close(u.done)
	select {
	case <-u.wanted:
	case <-u.over:
		select {
		case <-u.wanted: // both are closed, if the handler was quick
		default:
			return
		}
	}
	buf := buffers.Get().(*[streamAt]byte)
	defer buffers.Put(buf)
	body, left := u.r.Body, u.r.ContentLength
	chunked := left < 0
	var head []byte
	for chunked || left > 0 {
		p := buf[:]
		if !chunked { // what is beyond would be a second request
			p = p[:min(int64(len(p)), left)]
		}
		n, err := body.Read(p)
		if n > 0 {
			left -= int64(n)
			pieces := net.Buffers{p[:n]}
			if chunked {
				head = http1.AppendChunkHeader(head[:0], n)
				pieces = net.Buffers{head, p[:n], []byte(http1.ChunkEnd)}
			}
			if _, werr := pieces.WriteTo(u.conn); werr != nil {
				u.lost = tookTooLong(werr)
				for err == nil {
					_, err = body.Read(buf[:])
				}
				u.whole = err == io.EOF
				return
			}
		}
		if err == io.EOF && (chunked || left == 0) {
			break
		}
		if err != nil {
			_ = u.conn.CloseWrite() // the handler must not wait for the rest
			return
		}
	}
	u.whole = true
	if chunked {
		end := []byte("0\r\n")
		for _, f := range appendFields(nil, u.r.Trailer) {
			if !tooLate(f.Name) {
				end = http1.AppendField(end, f.Name, f.Value)
			}
		}
		_, err := u.conn.Write(append(end, "\r\n"...))
		u.lost = tookTooLong(err)
	}
}

// tookTooLong reports whether a write to the handler has failed on this side: by end's deadline, or
// because net/http, which reads until then, has ended the request's context for the same reason.
func tookTooLong(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed)
}

// end ends the goroutine, which must not read when ServeHTTP has returned, and reports whether it
// has read all. What comes within linger is still read.
func (u *upload) end(linger time.Duration) bool {
	select {
	case <-u.over:
	default:
		close(u.over)
	}
	select {
	case <-u.done:
	default:
		by := time.Now().Add(linger)
		_ = u.conn.SetWriteDeadline(by)
		if u.control.SetReadDeadline(by) != nil {
			_ = u.r.Body.Close()
		}
		<-u.done
		_ = u.conn.SetWriteDeadline(time.Time{})
		_ = u.control.SetReadDeadline(time.Time{})
	}
	return u.whole
}

// touches reports whether the goroutine may write the answer's header now. http.MaxBytesReader does
// that when a body is too long, and may be within a reader of some middleware; net/http's own
// bodies do not.
func (u *upload) touches() bool {
	if u == nil {
		return false
	}
	select {
	case <-u.done:
		return false
	case <-u.wanted:
	default:
		return false
	}
	switch fmt.Sprintf("%T", u.r.Body) {
	case "*http.body", "*http.http2requestBody":
		return false
	}
	return true
}

// endUpload ends the upload behind an answer. It reports false if the client's connection has to
// end with a cut: net/http would take what the client may still send of the body for a request.
func (v *visit) endUpload() bool {
	select {
	case <-v.upload.done:
	default:
		_ = v.control.Flush()
	}
	if v.upload.end(uploadLinger) || v.closes || v.r.ProtoMajor != 1 {
		return true
	}
	_ = v.control.Flush()
	return false
}
