package conn

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/wire/http1"
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
	return &mounted{NewServer(Config{Limits: Limits{MaxHeaderSize: 1 << 30},
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
	if r.Host != "" || r.ProtoAtLeast(1, 1) { // an old client may name none, but not an empty one
		for _, f := range appendValues(nil, "Host", []string{r.Host}) {
			b = http1.AppendField(b, f.Name, f.Value)
		}
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
	w.state = headed | named
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
			m.values = append(m.values, [2]uint32{uint32(len(m.path)),
				uint32(len(m.path) + len(value))})
			m.path = append(m.path, value...)
		}
	}
}

// enter serves the connection fd, on its loop. It is not accepted by a listener, and no limit of
// connections counts it: net/http has let it in.
func (s *Server) enter(l *loop.Loop, fd int, w *withHeader) {
	w.port = &port{server: s, loop: l, untaken: make(map[*connection]int),
		tally: new(tally)}
	s.admission.active.Add(1)
	budget.Connected(1) // see dismiss
	set := s.settings.Load()
	if err := l.Attach(&w.Thread, fd, &w.connection, set.HeaderTimeout); err != nil {
		set.Logger.Error("conn: connection not accepted", "error", err)
		sysio.Close(fd)
		w.Ended()
	}
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
