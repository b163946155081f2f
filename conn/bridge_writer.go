package conn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
)

// httpWriter is the http.ResponseWriter of a handler, on the loop or off it.
type httpWriter struct{ answerWriter }

// seen returns what the handler of a request gets: no http.Hijacker where the request has no
// connection that could be taken over, since code that asks for the interface has another way then.
func (w *httpWriter) seen(hijacks bool) http.ResponseWriter {
	if hijacks {
		return w
	}
	return &w.answerWriter
}

// hijacks reports whether Hijack can succeed for the request.
func (r *Request) hijacks() bool {
	st := r.x.via.multiplexed()
	return st == nil || st.opensWebSocket()
}

// answerWriter is httpWriter but for Hijack. It does what net/http promises to handlers, and leaves
// the rest to the outlet. Like every ResponseWriter it is for one goroutine at a time.
type answerWriter struct {
	to     outlet
	req    *http.Request
	log    *slog.Logger
	server *Server // which counts panics

	header   http.Header
	status   int      // 0: still to come
	declared int64    // Content-Length; -1: none
	written  int64    // bytes of the body that the handler has written
	trailers []string // those announced
	gone     chan bool
	over     bool // the handler has returned
	hijacked bool
	counter  uint32 // of the request's route
}

// outlet takes an answer: a Response, or the bridge to one.
type outlet interface {
	inform(status int, h http.Header) // 1xx
	open(status int, h http.Header)   // the head is decided
	io.Writer
	io.StringWriter
	Flush() error
	end(trailer []Field)
	setReadDeadline(t time.Time)
	setWriteDeadline(t time.Time)
	Hijack() (net.Conn, *bufio.Reader, error)
}

// Header implements http.ResponseWriter.
func (w *answerWriter) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

// WriteHeader implements http.ResponseWriter.
func (w *answerWriter) WriteHeader(status int) {
	switch {
	case w.over || w.hijacked:
		w.complain("WriteHeader after the handler has returned or hijacked the connection")
		return
	case w.status != 0:
		w.complain("superfluous WriteHeader")
		return
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	case status < 200 && status != http.StatusSwitchingProtocols:
		w.to.inform(status, w.header)
		return
	}
	w.status = status
	if text := w.header.Get("Content-Length"); text != "" {
		if n, err := strconv.ParseUint(text, 10, 63); err == nil {
			w.declared = int64(n)
		} else {
			w.complain("invalid Content-Length")
			w.header.Del("Content-Length")
		}
	}
	for _, list := range w.header["Trailer"] {
		eachTrailer(list, func(name string) { w.trailers = append(w.trailers, name) })
	}
	w.to.open(status, w.header)
}

// Write implements io.Writer.
func (w *answerWriter) Write(p []byte) (int, error) {
	if ok, err := w.admit(len(p)); !ok {
		return 0, err
	}
	return w.to.Write(p)
}

// WriteString implements io.StringWriter.
func (w *answerWriter) WriteString(s string) (int, error) {
	if ok, err := w.admit(len(s)); !ok {
		return 0, err
	}
	return w.to.WriteString(s)
}

// admit reports whether n bytes may be written now.
func (w *answerWriter) admit(n int) (bool, error) {
	switch {
	case w.hijacked:
		return false, http.ErrHijacked
	case w.over:
		return false, ErrComplete
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if n == 0 {
		return false, nil
	}
	if !w.bodyAllowed() {
		return false, http.ErrBodyNotAllowed
	}
	if w.declared >= 0 && w.written+int64(n) > w.declared {
		return false, http.ErrContentLength
	}
	w.written += int64(n)
	return true, nil
}

func (w *answerWriter) bodyAllowed() bool {
	return w.status >= 200 && w.status != http.StatusNoContent && w.status != http.StatusNotModified
}

// ReadFrom implements io.ReaderFrom. On the loop, the bytes of a regular file go by sendfile(2).
func (w *answerWriter) ReadFrom(src io.Reader) (int64, error) {
	if resp, ok := w.to.(*Response); ok && !w.over && !w.hijacked {
		if w.status == 0 {
			w.WriteHeader(http.StatusOK)
		}
		f, off, n := regular(src)
		fits := w.declared < 0 || w.written+n <= w.declared
		if n > 0 && fits && w.bodyAllowed() && resp.manner != sniffed {
			if err := resp.beginStream(); err != nil {
				return 0, err
			}
			if resp.enc == nil {
				w.written += n
				return resp.sendPart(f, off, n, src)
			}
		}
	}
	buf := buffers.Get().(*[streamAt]byte)
	defer buffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{w}, src, buf[:])
}

// Flush implements http.Flusher.
func (w *answerWriter) Flush() { _ = w.FlushError() }

// FlushError is Flush with an error, for http.ResponseController.
func (w *answerWriter) FlushError() error {
	switch {
	case w.hijacked:
		return http.ErrHijacked
	case w.over:
		return ErrComplete
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.status == http.StatusSwitchingProtocols { // it goes out with Hijack
		return nil
	}
	return w.to.Flush()
}

// SetReadDeadline is for http.ResponseController. It replaces body_timeout and min_rate; the zero
// time means no limit.
func (w *answerWriter) SetReadDeadline(t time.Time) error {
	if w.over || w.hijacked {
		return ErrComplete
	}
	w.to.setReadDeadline(deadline(t))
	return nil
}

// SetWriteDeadline is for http.ResponseController. It replaces write_timeout and min_rate.
func (w *answerWriter) SetWriteDeadline(t time.Time) error {
	if w.over || w.hijacked {
		return ErrComplete
	}
	w.to.setWriteDeadline(deadline(t))
	return nil
}

// deadline is t as a carrier has it: there the zero time means that no deadline was set.
func deadline(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return t
}

var zeroTime time.Time

// EnableFullDuplex is for http.ResponseController. Reading and writing work at once in any case.
func (w *answerWriter) EnableFullDuplex() error { return nil }

// CloseNotify implements http.CloseNotifier. The request's context has replaced that, but some code
// expects it of every ResponseWriter (gin's Context.Stream). The channel gets a value when the
// client leaves before the request ends.
func (w *answerWriter) CloseNotify() <-chan bool {
	if w.gone == nil {
		w.gone = make(chan bool, 1)
		ctx := w.req.Context()
		context.AfterFunc(ctx, func() {
			if errors.Is(context.Cause(ctx), loop.ErrClientGone) {
				w.gone <- true
			}
		})
	}
	return w.gone
}

// Hijack implements http.Hijacker.
func (w *httpWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.takeOver() }

func (w *answerWriter) takeOver() (net.Conn, *bufio.ReadWriter, error) {
	if w.hijacked {
		return nil, nil, http.ErrHijacked
	}
	if w.over {
		return nil, nil, ErrComplete
	}
	c, br, err := w.to.Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.hijacked = true
	return c, bufio.NewReadWriter(br, bufio.NewWriter(c)), nil
}

// finish ends the answer of a handler that has returned.
func (w *answerWriter) finish() {
	if w.hijacked {
		return
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.status == http.StatusSwitchingProtocols {
		// It goes out with Hijack, and the connection no longer speaks HTTP. After an error of Hijack
		// the answer is 500.
		if c, _, err := w.takeOver(); err == nil {
			_ = c.Close()
			return
		}
	}
	var trailer []Field
	if w.req.ProtoAtLeast(1, 1) {
		trailer = w.trailer()
	}
	short := w.declared >= 0 && w.written < w.declared && w.bodyAllowed() &&
		w.req.Method != http.MethodHead
	if trailer != nil || short {
		// A streamed answer can have trailers; and if it is shorter than announced, the connection
		// is cut.
		_ = w.to.Flush()
	}
	w.to.end(trailer)
}

// trailer returns the fields to send behind the body, nil if none were announced.
func (w *answerWriter) trailer() []Field {
	var fields []Field
	if len(w.trailers) > 0 {
		fields = make([]Field, 0, len(w.trailers))
	}
	for _, name := range w.trailers {
		fields = appendValues(fields, name, w.header[name])
	}
	for name, values := range w.header {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			name = textproto.CanonicalMIMEHeaderKey(name)
			if http1.ValidToken(name) && !tooLate(name) {
				fields = appendValues(fields, name, values)
			}
		}
	}
	return fields
}

// removeForm removes the files of a form that the handler has parsed.
func (w *answerWriter) removeForm() {
	if w.req.MultipartForm != nil {
		_ = w.req.MultipartForm.RemoveAll()
	}
}

// about is exchange.about for what may have outlived the exchange.
func (w *answerWriter) about(args ...any) []any {
	args = append(args, "request_id", RequestID(w.req.Context()), "target", w.req.RequestURI)
	return w.server.settings.Load().nameOf(w.counter).attrs(args)
}

// complain logs a mistake of the handler, and its place in the code.
func (w *answerWriter) complain(what string) {
	pc := make([]uintptr, 16)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	var f runtime.Frame
	for more := true; more; {
		f, more = frames.Next()
		if !strings.HasPrefix(f.Function, "net/http.") &&
			!strings.Contains(f.Function, "conn.(*httpWriter)") &&
			!strings.Contains(f.Function, "conn.(*answerWriter)") {
			break
		}
	}
	at := fmt.Sprintf("%s (%s:%d)", f.Function, path.Base(f.File), f.Line)
	w.log.Warn("conn: http.Handler: "+what, w.about("by", at)...)
}
