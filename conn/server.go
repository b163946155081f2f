package conn

import (
	"cmp"
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

// Server serves HTTP on any number of loops. Any goroutine may call its methods, except Listen.
type Server struct {
	settings  atomic.Pointer[settings]
	admission admission
	temp      sysio.TempSpace
	spoolNote logLimiter
	diskNote  logLimiter

	descriptorNote logLimiter
	bridges        bridges

	// Connections closed because of the PROXY protocol.
	headerNote, strangerNote logLimiter
	strangers                atomic.Int64 // since the last line in the log

	schemeNote logLimiter // of requests for https by HTTP/2 in clear text

	handshakeNote    logLimiter
	failedHandshakes atomic.Int64 // since the last line in the log

	stats    sync.Map     // *loop.Loop -> *loopStats
	detached atomic.Int64 // see Detached
	panics   atomic.Int64 // see Panicked
	refusals refusalCounts
	windows  http2.WindowBudget // of uploads by HTTP/2
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
	s.refuse(refusedSpool)
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

// Active returns the number of open connections.
func (s *Server) Active() int { return int(s.admission.active.Load()) }

// Listen accepts connections on l. The caller is on the loop, or the loop does not run yet. To stop
// accepting, close the returned Listener on the loop. On an error ln.FD is still the caller's.
func (s *Server) Listen(l *loop.Loop, ln Listener) (*loop.Listener, error) {
	p := &port{Listener: ln, server: s, loop: l, terms: newTerms(ln.Terms),
		untaken: make(map[*connection]int)}
	p.local = loop.LocalAddr(ln.FD)
	p.wildcard = p.local.Addr().IsUnspecified()
	s.admission.serves(l)
	t, _ := s.stats.LoadOrStore(l, new(loopStats))
	p.stats = t.(*loopStats)
	return l.Accept(ln.FD, p.accept)
}

// Requests returns how many requests have begun on l, those included that were refused. It is
// called on l.
func (s *Server) Requests(l *loop.Loop) int64 {
	if t, ok := s.stats.Load(l); ok {
		return t.(*loopStats).Requests
	}
	return 0
}

// Stats returns what l has counted. It is called on l.
func (s *Server) Stats(l *loop.Loop) Stats {
	if t, ok := s.stats.Load(l); ok {
		return t.(*loopStats).copy()
	}
	return Stats{}
}

// Detached returns how many connections an http.Handler off the loops has taken over. Each counts
// until its handler returns; what the handler leaves to other goroutines is not seen any more.
func (s *Server) Detached() int { return int(s.detached.Load()) }

// Panicked returns how many panics of handlers, and in TLS handshakes, have been logged. What ends
// in http.ErrAbortHandler is none. Those of green threads without a connection are counted by
// loop.Loop.Panicked.
func (s *Server) Panicked() int64 { return s.panics.Load() }

// Refusing returns how many connections linger behind a 503, beyond MaxConnections.
func (s *Server) Refusing() int { return int(s.admission.refusing.Load()) }

func (p *port) accept(fd int, remote netip.AddrPort) {
	p.stats.Accepted++
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
	var err error
	if p.TLS == nil && !header { // else a silent client would hold a coroutine
		err = p.loop.Layer().AttachReady(&c.Thread, fd, c, cfg.HeaderTimeout)
	} else {
		err = p.attach(c, fd, c, cfg.HeaderTimeout)
	}
	if err != nil {
		cfg.Logger.Error("conn: connection not accepted", "error", err)
		sysio.Close(fd)
		c.Ended()
		return
	}
	c.Thread.Layer().MarkIdle(p.loop.Time(), false)
}

// attach makes c the thread of fd.
func (p *port) attach(c *connection, fd int, b loop.Task, timeout time.Duration) error {
	err := p.loop.Attach(&c.Thread, fd, b, timeout)
	if err == nil && p.loop.Stopping() { // the stop has woken only the threads before this
		c.Thread.Layer().Wake()
	}
	return err
}

// newConnection makes the record of a connection that was accepted.
func (p *port) newConnection(remote netip.AddrPort, header bool) *connection {
	if !header {
		return &connection{port: p, remote: peerOf(remote), state: p.terms.first.state()}
	}
	w := new(proxyConnection)
	w.port, w.remote, w.state = p, peerOf(remote), headed|p.terms.first.state()
	return &w.connection
}

// refuseStranger closes a connection whose peer may not speak for others. It gets no answer: it
// expects a protocol that the server does not speak with it.
func (p *port) refuseStranger(fd int, from peer, set *settings) {
	s := p.server
	s.strangers.Add(1)
	s.refuse(refusedStranger)
	if s.strangerNote.now(p.loop) {
		set.Logger.Warn("conn: connections closed, their peers are not among trusted_proxies, and "+
			"the listener has proxy_protocol", "listener", p.Name, "peer", from.addrPort(),
			"closed", s.strangers.Swap(0))
	}
	sysio.Close(fd)
}
