package conn

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/http1"
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
