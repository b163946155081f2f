package conn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/http1"
)

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
