package conn

import (
	"crypto/tls"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
)

// Handler answers one request, on the connection's thread. It returns the status; 0 means that of
// Response.SetStatus, or else 200. A status of 400 and above with an empty body gives the error
// page. Once the head has gone out (Flush, or more than 32 KiB written) the status is ignored, and
// one that differs from what SetStatus has set is logged.
type Handler func(req *Request, resp *Response) int

// Config is what a Server goes by. A zero duration or size means the default given with it.
type Config struct {
	Handler Handler

	KeepAliveTimeout time.Duration // between requests; 15 s
	HeaderTimeout    time.Duration // for a whole head, from its first byte; 10 s
	BodyTimeout      time.Duration // between two reads of a body; 30 s
	WriteTimeout     time.Duration // between two writes that make way; 30 s
	MinRate          int           // bytes per second waited for, after 10 s, bodies and slow readers; negative: none; 500

	MaxConnections int   // 0: no limit
	MaxHeaderSize  int   // bytes of a head; 16 KiB
	MaxBodySize    int64 // bytes of a request body; negative: no limit; 40 MiB

	Headers   []Field      // added to every response that does not have them
	AccessLog AccessLog    // nil: none
	Logger    *slog.Logger // nil: slog.Default
}

// AccessLog is told of every answered request, on the loop: it must not block.
type AccessLog interface {
	LogRequest(l *loop.Loop, e *AccessEntry)
}

// AccessEntry describes an answered request. The byte slices are views, good for the time of the call.
type AccessEntry struct {
	Remote    netip.AddrPort
	Time      time.Time // when the request's head was complete
	Duration  time.Duration
	Method    string
	Target    []byte
	Proto     string
	Host      []byte
	Referer   []byte
	UserAgent []byte
	Status    int
	Bytes     int64 // of the response's body, as framed; of one that broke off, those that the client has acknowledged
}

// Server serves HTTP on any number of loops. Its methods are for any goroutine, except Serve.
type Server struct {
	settings atomic.Pointer[settings]
	active   atomic.Int64
	refusing atomic.Int64
	ids      atomic.Uint64
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
	orDefault := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	orDefault(&cfg.KeepAliveTimeout, 15*time.Second)
	orDefault(&cfg.HeaderTimeout, 10*time.Second)
	orDefault(&cfg.BodyTimeout, 30*time.Second)
	orDefault(&cfg.WriteTimeout, 30*time.Second)
	if cfg.MinRate == 0 {
		cfg.MinRate = 500
	}
	if cfg.MaxHeaderSize == 0 {
		cfg.MaxHeaderSize = 16 << 10
	}
	if cfg.MaxBodySize == 0 {
		cfg.MaxBodySize = 40 << 20
	}
	if cfg.Handler == nil {
		cfg.Handler = func(*Request, *Response) int { return 404 }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	ready := &settings{Config: cfg}
	for _, f := range cfg.Headers {
		if http1.ValidToken(f.Name) && http1.ValidFieldValue(f.Value) {
			ready.fields = appendField(ready.fields, f.Name, f.Value)
		} else {
			cfg.Logger.Error("configured header left out: not a valid field", "name", f.Name, "value", f.Value)
		}
	}
	s.settings.Store(ready)
}

// Active returns the number of open connections.
func (s *Server) Active() int { return int(s.active.Load()) }

// Listener is a listening socket for one loop.
type Listener struct {
	FD  int         // non-blocking, from loop.Listen; the server's from now on
	TLS *tls.Config // nil: plain
}

// Serve accepts connections on l. It is called on the loop or before Run. The returned thread can be closed, on the
// loop, to stop accepting.
func (s *Server) Serve(l *loop.Loop, ln Listener) (*loop.Listener, error) {
	p := &port{server: s, loop: l, tls: ln.TLS}
	if local := loop.LocalAddr(ln.FD); !local.Addr().IsUnspecified() {
		p.local = local
	}
	return l.Accept(ln.FD, p.accept)
}

// port is what all connections of one listener on one loop have in common.
type port struct {
	server *Server
	loop   *loop.Loop
	tls    *tls.Config
	local  netip.AddrPort // of all connections; invalid: they differ

	// What all responses of this second begin with.
	second int64
	set    *settings
	date   []byte // the Date field
	fields []byte // it and the configured fields
}

// maxRefusing bounds the connections that are told 503, beyond MaxConnections.
const maxRefusing = 128

func (p *port) accept(fd int, remote netip.AddrPort) {
	s := p.server
	cfg := s.settings.Load()
	c := &connection{port: p, remote: remote}
	timeout := cfg.HeaderTimeout
	if n := s.active.Add(1); cfg.MaxConnections > 0 && n > int64(cfg.MaxConnections) {
		s.active.Add(-1)
		if s.refusing.Add(1) > maxRefusing || p.tls != nil {
			s.refusing.Add(-1)
			sysio.Close(fd)
			return
		}
		c.refused = true
		timeout = lingerTime
	}
	if err := p.loop.Attach(&c.Thread, fd, c, timeout); err != nil {
		cfg.Logger.Error("connection not accepted", "error", err)
		sysio.Close(fd)
		c.Ended()
		return
	}
	if c.refused || p.loop.Stopping() { // the stop has been past those that had nothing to say yet
		loop.Wake(&c.Thread)
	}
}

// refresh makes date and fields those of this second. The loop's time is that of its turn, so the text is right even
// after the loop has slept.
func (p *port) refresh(set *settings) {
	now := p.loop.Time()
	if sec := now.Unix(); sec != p.second || set != p.set {
		p.second, p.set = sec, set
		p.date = append(http1.AppendDate(append(p.date[:0], "Date: "...), now), "\r\n"...)
		p.fields = append(append(p.fields[:0], p.date...), set.fields...)
	}
}

func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, value...)
	return append(b, "\r\n"...)
}
