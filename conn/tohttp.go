package conn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
)

// ToHTTP makes an http.Handler of h, so that a server of net/http can have handlers that run on
// loops. Each request takes a pair of sockets: h sees one end as a client's connection, and the
// goroutine of net/http speaks HTTP/1.1 at the other. So all works as it does behind a Server:
// waiting, streams in both directions, interim responses, trailers, an upgrade after Hijack. It
// costs more than either server costs alone, some 80 µs for a request: it is there to begin with.
//
// What the request says of its client comes from net/http: RemoteAddr (as far as it is an address),
// LocalAddr, TLS, Host, and of the path what a ServeMux has found: PathValue. Request.Context has
// the values of the http.Request's, and ends when net/http notices that the client has left. The
// target is r.URL, so http.StripPrefix works. HTTP/2 appears as HTTP/1.1.
//
// If the deadline of the request's context passes before h has answered, the middleware that has
// set it may answer. Behind http.MaxBytesReader, or another body that is not net/http's own, the
// head of an answer waits for the body, half a second at most; then h gets no more of it.
//
// The limits for h are the defaults of a Config (a body of 40 MiB, 30 s for a read or a write, 500
// bytes a second), except that net/http alone limits the head. For what net/http writes to the
// client, the limits of the http.Server count. After an upgrade the client has 30 s for each 16
// KiB, and a Shutdown of the http.Server does not concern it.
//
// What h writes after Hijack must begin with an answer in HTTP/1.1. If that is a 101, h has half a
// second to take what is left of the request's body; otherwise the client's connection is cut. An
// upgrade needs a ResponseWriter that can be hijacked; HTTP/2 has none, and the client gets 501. If
// middleware has wrapped the ResponseWriter, its type needs Unwrap (see http.ResponseController) for
// that and for streams in both directions. An answer that begins before the body has come, and ends
// while the client still sends, is cut half a second later.
//
// The loops belong to the process, and all such handlers share them. They are started by requests,
// one for each CPU at most, and end a second or two after the last one. A handler that holds up its
// loop for more than 100 ms is logged with its stack.
func ToHTTP(h Service) http.Handler {
	return &mounted{NewServer(Config{MaxHeaderSize: 1 << 30,
		Handler: func(req *Request, resp *Response) int {
			if front := req.x.c.introduced().front; front.matched.pattern != "" {
				req.matched = front.matched
			}
			return h.Serve(req, resp)
		}})}
}

// mounted is a handler under net/http.
type mounted struct{ server *Server }

// ServeHTTP implements http.Handler.
func (m *mounted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head, ok := mountedHead(r)
	if !ok {
		http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
		return
	}
	c, err := m.connect(r)
	if err != nil {
		slog.Error("conn: no connection to a handler under net/http", "error", err)
		code := http.StatusServiceUnavailable
		http.Error(w, http.StatusText(code), code)
		return
	}
	stay := context.AfterFunc(r.Context(), func() { c.Close() }) // h learns that the client has left
	defer stay()
	v := &visit{w: w, r: r, control: http.NewResponseController(w), conn: c, stay: stay,
		in: bufio.NewReaderSize(c, visitBuffer)}
	defer v.end()
	_, _ = c.Write(head) // its error is that of reading
	if r.ContentLength != 0 && r.Body != nil {
		v.upload = newUpload(v)
	}
	if v.serve() && (v.upload == nil || v.endUpload()) {
		return
	}
	if !v.headed && context.Cause(r.Context()) == context.DeadlineExceeded {
		return // middleware that has set the deadline answers
	}
	panic(http.ErrAbortHandler)
}

// mountedHead returns the head of r as h gets it. It reports false if that would not be one.
func mountedHead(r *http.Request) ([]byte, bool) {
	target := r.URL.RequestURI()
	switch {
	case r.Method == http.MethodConnect:
		target = r.RequestURI
	case target[0] != '/' && target != "*": // http.StripPrefix("/a/", h)
		target = "/" + target
	}
	if !http1.ValidToken(r.Method) || !http1.ValidFieldValue(target) ||
		strings.Contains(target, " ") {
		return nil, false
	}
	version := " HTTP/1.1\r\n"
	if r.ProtoMajor == 1 && r.ProtoMinor == 0 && r.ContentLength >= 0 {
		version = " HTTP/1.0\r\n"
	}
	b := make([]byte, 0, 1<<10)
	b = append(append(append(append(b, r.Method...), ' '), target...), version...)
	for _, f := range appendValues(nil, "Host", []string{r.Host}) {
		b = http1.AppendField(b, f.Name, f.Value)
	}
	for _, f := range appendFields(nil, r.Header) {
		switch f.Name {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
		case "Connection", "Keep-Alive":
			if r.ProtoMajor == 1 {
				b = http1.AppendField(b, f.Name, f.Value)
			}
		default:
			b = http1.AppendField(b, f.Name, f.Value)
		}
	}
	switch {
	case r.ContentLength < 0 && r.Body != nil:
		b = http1.AppendField(b, "Transfer-Encoding", "chunked")
		for name := range r.Trailer {
			if http1.ValidToken(name) {
				b = http1.AppendField(b, "Trailer", name)
			}
		}
	case r.ContentLength > 0 || r.Header["Content-Length"] != nil:
		b = http1.AppendField(b, "Content-Length", strconv.FormatInt(r.ContentLength, 10))
	}
	return append(b, "\r\n"...), true
}

// connect returns the end of a new connection to the handler.
func (m *mounted) connect(r *http.Request) (*net.UnixConn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX,
		unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	f := os.NewFile(uintptr(fds[0]), "socketpair")
	c, err := net.FileConn(f) // of a duplicate
	_ = f.Close()
	if err == nil {
		w := introduction(r)
		if err = hosts.post(func(l *loop.Loop) { m.server.enter(l, fds[1], w) }); err == nil {
			return c.(*net.UnixConn), nil
		}
		_ = c.Close()
	}
	sysio.Close(fds[1])
	return nil, err
}

// introduction makes the record of a connection with what net/http knows of the client.
func introduction(r *http.Request) *withHeader {
	f := &front{ctx: context.WithoutCancel(r.Context()), tls: r.TLS}
	f.matched.of(r)
	w := &withHeader{known: true, front: f}
	w.headed, w.state = true, named
	if remote, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		w.remote = peerOf(remote)
	} else if addr, err := netip.ParseAddr(r.RemoteAddr); err == nil { // some middleware sets that
		w.remote = peerOf(netip.AddrPortFrom(addr, 0))
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		w.local = peerOf(local.AddrPort())
	}
	if r.TLS != nil {
		w.state |= secured
	}
	return w
}

// of takes over what a ServeMux, or another router that sets Pattern and path values, has found.
func (m *matched) of(r *http.Request) {
	m.pattern = r.Pattern
	for rest := r.Pattern; ; {
		_, after, ok := strings.Cut(rest, "{")
		name, after, closed := strings.Cut(after, "}")
		if !ok || !closed {
			return
		}
		rest = after
		name, _, _ = strings.Cut(strings.TrimSuffix(name, "..."), ":") // chi has {name:expression}
		if value := r.PathValue(name); value != "" {
			m.names = append(m.names, name)
			m.values = append(m.values, http1.Span{Start: uint32(len(m.path)),
				End: uint32(len(m.path) + len(value))})
			m.path = append(m.path, value...)
		}
	}
}

// enter serves the connection fd, on its loop. It is not accepted by a listener, and no limit of
// connections counts it: net/http has let it in.
func (s *Server) enter(l *loop.Loop, fd int, w *withHeader) {
	w.port = &port{server: s, loop: l, untaken: make(map[*connection]int), tally: new(tally)}
	s.admission.active.Add(1)
	set := s.settings.Load()
	if err := l.Attach(&w.Thread, fd, &w.connection, set.HeaderTimeout); err != nil {
		set.Logger.Error("conn: connection not accepted", "error", err)
		sysio.Close(fd)
		w.Ended()
	}
}

const (
	visitBuffer = 16 << 10

	// uploadLinger is for how long the rest of a body is still read, once the answer is there, so
	// that a client that writes all of it before it reads gets the answer. It is what net/http
	// would wait for at most in this place, see closeWriteAndWait there.
	uploadLinger = 500 * time.Millisecond
)

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
	_ = client.SetWriteDeadline(time.Now().Add(DefaultWriteTimeout))
	_, err := client.Write(p)
	return err == nil
}

// hosts are the loops of handlers under net/http.
var hosts hostSet

type hostSet struct {
	mu   sync.Mutex
	all  []*host // nil: not started yet
	next int
}

// host is a loop that ends when it was not used for a while.
type host struct {
	loop *loop.Loop

	// The loop's.
	used time.Time
	kept bool // a thread keeps the loop going
}

const (
	hostIdle = time.Second            // for so long a loop goes on without requests
	heldUp   = 100 * time.Millisecond // a handler that holds its loop for longer is logged
)

// post calls f on a loop.
func (s *hostSet) post(f func(l *loop.Loop)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make([]*host, loop.Reserve(0))
	}
	s.next = (s.next + 1) % len(s.all)
	if h := s.all[s.next]; h != nil && h.loop.Post(func() { h.enter(f) }) == nil {
		return nil
	}
	loop.Reserve(1)
	l, err := loop.New(loop.Options{})
	if err != nil {
		return err
	}
	h := &host{loop: l}
	s.all[s.next] = h
	h.enter(f) // the loop does not run yet
	dog := loop.NewWatchdog(slog.Default(), heldUp, l)
	go func() {
		defer dog.Close()
		if err := l.Run(); err != nil {
			slog.Error("conn: a loop for handlers under net/http has failed", "error", err)
		}
	}()
	return nil
}

// enter calls f, and keeps the loop going.
func (h *host) enter(f func(l *loop.Loop)) {
	h.used = h.loop.Time()
	if !h.kept {
		h.kept = true
		h.loop.Go(h.keep)
	}
	f(h.loop)
}

// keep ends when no request has come for a while.
func (h *host) keep(t *loop.Thread) {
	for t.Sleep(hostIdle) == nil && h.loop.Time().Sub(h.used) < hostIdle {
	}
	h.kept = false
}
