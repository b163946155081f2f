package conn

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// Handler answers one request, on the connection's thread. It returns the status; 0 means that of
// Response.SetStatus, or else 200. A status of 400 or above with an empty body gives the error
// page. Once the head has gone out (Flush, or more than 32 KiB written) the returned status is
// ignored; if it differs from that in the head, this is logged.
type Handler func(req *Request, resp *Response) int

// Serve calls h.
func (h Handler) Serve(req *Request, resp *Response) int { return h(req, resp) }

// Service is what has a Handler as its method Serve: a Handler itself, a router.
type Service interface {
	Serve(req *Request, resp *Response) int
}

// Config is the configuration of a Server.
type Config struct {
	Limits

	Handler Handler // nil: every answer is a 404

	// Reserved is how many descriptors the process needs for other things than connections. By
	// default MaxConnections leaves as many.
	Reserved int

	// Proxies says, by the name of a Listener, which of its peers are proxies; absent: none.
	Proxies map[string]*Proxies

	// LargestBodySize is how far Body.ReplaceLimit can raise MaxBodySize for a request. Beyond it no
	// handler runs, see Refuses. 0: not at all.
	LargestBodySize int64

	// Refuses says that Handler itself answers 413 to a request that is TooLarge, so that the answer
	// gets the page of whom the request was for. Else Handler does not get such a request.
	Refuses bool

	// Leaving ends each connection behind its next answer, which says so. An idle one waits for that
	// request, or for the end of KeepAliveTimeout: to close it at once could lose a request that is
	// on its way.
	Leaving bool

	// Count says that requests are counted by route, see Tally. It costs two looks at the clock for
	// each request.
	Count bool

	Headers   []Field      // added to every response that does not set them
	AccessLog AccessLog    // nil: none
	Logger    *slog.Logger // nil: slog.Default
}

// Server serves HTTP on any number of loops. Any goroutine may call its methods, except Serve.
type Server struct {
	settings  atomic.Pointer[settings]
	admission admission
	temp      sysio.TempSpace
	spoolNote seldom
	diskNote  seldom

	descriptorNote seldom
	bridges        bridges

	// Connections closed because of the PROXY protocol.
	headerNote, strangerNote seldom
	strangers                atomic.Int64 // since the last line in the log

	schemeNote seldom // of requests for https by HTTP/2 in clear text

	handshakeNote    seldom
	failedHandshakes atomic.Int64 // since the last line in the log

	tallies  sync.Map     // *loop.Loop -> *tally
	detached atomic.Int64 // see Detached
	panics   atomic.Int64 // see Panicked
	windows  http2.Growth // of uploads by HTTP/2
}

// settings is a Config made ready for use.
type settings struct {
	Config
	fields []byte // Headers, in wire form
}

// NewServer makes a server.
func NewServer(cfg Config) *Server {
	s := new(Server)
	s.Configure(cfg)
	return s
}

// Configure replaces the configuration, from each connection's next request on.
func (s *Server) Configure(cfg Config) {
	cfg.Limits = cfg.Complete(cfg.LargestBodySize, cfg.Reserved)
	if cfg.LargestBodySize = max(cfg.LargestBodySize, int64(cfg.MaxBodySize)); cfg.MaxBodySize < 0 {
		cfg.LargestBodySize = -1
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Handler == nil {
		cfg.Handler = func(*Request, *Response) int { return 404 }
	}
	ready := &settings{Config: cfg}
	for _, f := range cfg.Headers {
		if http1.ValidToken(f.Name) && http1.ValidFieldValue(f.Value) {
			ready.fields = http1.AppendField(ready.fields, f.Name, f.Value)
		} else {
			cfg.Logger.Error("conn: configured header left out, not a valid field",
				"name", f.Name, "value", f.Value)
		}
	}
	s.temp.Configure(cfg.SpoolDir, int64(cfg.MaxSpool))
	s.settings.Store(ready)
}

// Spooled returns how many bytes the temporary files of all requests have.
func (s *Server) Spooled() int64 { return s.temp.Used() }

// noteSpool logs that the request of x could not be spooled.
func (s *Server) noteSpool(x *exchange, err error) {
	if err == ErrNoDescriptor {
		return // the client's own doing
	}
	if err != ErrSpoolFull && s.diskNote.now(x.c.Loop()) {
		x.set.Logger.Error("conn: no room on the disk of spool_dir, requests get 503", "error", err)
	}
	if err == ErrSpoolFull && s.spoolNote.now(x.c.Loop()) {
		client := networks.Of(x.req.RemoteAddr().Addr())
		x.set.Logger.Warn("conn: temporary files have reached max_spool, requests get 503",
			"max_spool", int64(x.set.MaxSpool), "used", s.temp.Used(),
			"client", client, "of_client", s.temp.UsedBy(client))
	}
}

// seldom limits lines of the log that clients can cause to one a minute.
type seldom struct{ next atomic.Int64 } // not before this, in nanoseconds since epoch

// now reports whether it is time for a line.
func (s *seldom) now(l *loop.Loop) bool {
	now, next := int64(l.Time().Sub(epoch)), s.next.Load()
	return now >= next && s.next.CompareAndSwap(next, now+int64(time.Minute))
}

// epoch is for times that count on while the system's clock is set.
var epoch = time.Now()

// Active returns the number of open connections.
func (s *Server) Active() int { return int(s.admission.active.Load()) }

// Listener is a listening socket for one loop.
type Listener struct {
	FD  int         // non-blocking, from loop.Listen; the server's once Serve has succeeded
	TLS *tls.Config // nil: plain

	// Name is what RequestLayer.Listener returns, and the key of Config.Proxies. It may be empty, and
	// several listeners may share it.
	Name string

	// Terms, if not nil, counts how often the listener has begun to ask more of its clients than
	// before, such as a certificate: see Server.Outdate.
	Terms *atomic.Uint32

	// HTTP2 lets clients speak HTTP/2 as well: over TLS if they agree on "h2" by ALPN, for which it
	// must be among NextProtos, and otherwise with prior knowledge (RFC 9113 section 3).
	HTTP2 bool

	// Elsewhere, if not nil, reports whether a request for host must come by another connection than
	// one whose client has asked for the name sni in its handshake. A client of HTTP/2 may ask for any
	// host on one connection (RFC 9113 section 9.1.1); then it gets 421.
	Elsewhere func(sni, host string) bool
}

// Serve accepts connections on l. The caller is on the loop, or the loop does not run yet. To stop
// accepting, close the returned Listener on the loop. On an error ln.FD is still the caller's.
func (s *Server) Serve(l *loop.Loop, ln Listener) (*loop.Listener, error) {
	p := &port{Listener: ln, server: s, loop: l, terms: newTerms(ln.Terms),
		untaken: make(map[*connection]int)}
	p.local = loop.LocalAddr(ln.FD)
	p.wildcard = p.local.Addr().IsUnspecified()
	s.admission.serves(l)
	t, _ := s.tallies.LoadOrStore(l, new(tally))
	p.tally = t.(*tally)
	return l.Accept(ln.FD, p.accept)
}

// Requests returns how many requests have begun on l, those included that were refused. It is
// called on l.
func (s *Server) Requests(l *loop.Loop) int64 {
	if t, ok := s.tallies.Load(l); ok {
		return t.(*tally).Requests
	}
	return 0
}

// Tally returns what l has counted. It is called on l.
func (s *Server) Tally(l *loop.Loop) Tally {
	if t, ok := s.tallies.Load(l); ok {
		return t.(*tally).copy()
	}
	return Tally{}
}

// Detached returns how many connections an http.Handler off the loops has taken over. Each counts
// until its handler returns; what the handler leaves to other goroutines is not seen any more.
func (s *Server) Detached() int { return int(s.detached.Load()) }

// Panicked returns how many panics of handlers, and in TLS handshakes, have been logged. What ends in
// http.ErrAbortHandler is none. Those of green threads without a connection are counted by
// loop.Loop.Panicked.
func (s *Server) Panicked() int64 { return s.panics.Load() }

// Refusing returns how many connections linger behind a 503, beyond MaxConnections.
func (s *Server) Refusing() int { return int(s.admission.refusing.Load()) }

// port is what the connections of one listener on one loop share.
type port struct {
	Listener
	server *Server
	loop   *loop.Loop
	terms  terms

	local    netip.AddrPort // the listener's; invalid: a UNIX socket's, or of no listener
	wildcard bool           // connections have different ones
	locals   locals

	tally *tally // the loop's

	// untaken is how many bytes of their answers the clients of overdue connections had not taken
	// when Overdue last looked. Few connections need it, so their records do not have it.
	untaken map[*connection]int

	spareStreams               // of HTTP/2
	spare        []*exchange   // that no background subrequest uses
	backgrounds  []*background // that were released
	taps         []*tapped     // that no response has

	// The first fields of all responses of this second.
	second int64
	set    *settings
	date   []byte // the Date field
	fields []byte // date and the configured fields

	// The same for HTTP/2.
	encodedDate, encoded []byte
}

func (p *port) accept(fd int, remote netip.AddrPort) {
	p.tally.Accepted++
	a, cfg := &p.server.admission, p.server.settings.Load()
	proxies := p.proxies(cfg)
	header := proxies != nil && proxies.Protocol
	c := p.newConnection(remote, header)
	if header && !proxies.trusts(c.remote) {
		p.refuseStranger(fd, c.remote, cfg)
		return
	}
	if !a.admit(c, p.loop, cfg) {
		p.turnAway(fd, c, cfg)
		return
	}
	if err := p.attach(c, fd, c, cfg.HeaderTimeout); err != nil {
		cfg.Logger.Error("conn: connection not accepted", "error", err)
		sysio.Close(fd)
		c.Ended()
		return
	}
	loop.MarkIdle(&c.Thread, p.loop.Time(), false)
}

// attach makes c the thread of fd.
func (p *port) attach(c *connection, fd int, b loop.Task, timeout time.Duration) error {
	err := p.loop.Attach(&c.Thread, fd, b, timeout)
	if err == nil && p.loop.Stopping() { // the stop has woken only the threads before this
		loop.Wake(&c.Thread)
	}
	return err
}

// refresh sets date and fields for this second. The loop's time stands still during a turn, so the
// text is right even after the loop has slept.
func (p *port) refresh(set *settings) {
	if now := p.loop.Time(); now.Unix() != p.second || set != p.set {
		p.renew(now, set)
	}
}

// renew is refresh in a new second, or with other settings.
//
//go:noinline
func (p *port) renew(now time.Time, set *settings) {
	p.second, p.set = now.Unix(), set
	p.date = append(http1.AppendDate(append(p.date[:0], "Date: "...), now), "\r\n"...)
	p.fields = append(append(p.fields[:0], p.date...), set.fields...)
	p.encode(set) // also where HTTP/2 was turned off: a connection from before may speak it
}

// encode is refresh for HTTP/2.
func (p *port) encode(set *settings) {
	p.encodedDate = http2.AppendField(p.encodedDate[:0], "Date", string(p.date[len("Date: "):len(p.date)-2]))
	p.encoded = append(p.encoded[:0], p.encodedDate...)
	for _, f := range set.Headers {
		if http1.ValidToken(f.Name) && http1.ValidFieldValue(f.Value) {
			p.encoded = http2.AppendField(p.encoded, f.Name, f.Value)
		}
	}
}
