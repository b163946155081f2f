package lwango

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/asynclog"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/process/sockets"
	"github.com/lwango/lwango/internal/tls/certs"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Server is a server that a program starts in code: it reads no flags, obeys no signals and ends no
// process. The zero Server serves what was registered with Handle, at port 8080 of all addresses. A
// zero field has the default of lwango.conf, or the value in File.
//
// A process may have any number of Servers, and Main or Run beside them. Each Server has loops of
// its own, with a processor for each loop (see loop.Reserve). Topics, and the connections that Get
// keeps, belong to the process, and all Servers share them. A Server is a value: to change it after
// Start has no effect.
type Server struct {
	// Addr is where to listen: "host:port" (an IP address, localhost, or nothing or * for all
	// addresses; port 0 is one that the kernel chooses), "unix:/path", or "systemd:name" for a
	// socket that the service manager passes. "" stands for "*:8080" if there are TLS or
	// TrustedProxies, or neither Listeners nor a configuration.
	Addr string

	// Handler answers all requests; nil: the handlers that were registered with Handle before Start,
	// or the sites of the configuration. It is an error if there are none of these.
	Handler Service

	// TLS is how to speak TLS at Addr; nil: plain HTTP. It needs a certificate, or a function that
	// gets one. HTTP/2 comes before HTTP/1.1 if NextProtos is empty; otherwise it is offered if it
	// ("h2") is among them. The configuration must not change. Its functions may wait; the Context of
	// their ClientHelloInfo is done when the server no longer waits for them.
	TLS *tls.Config

	// HTTP2 lets clients that come to Addr without TLS speak HTTP/2 as well, with prior knowledge (RFC
	// 9113 section 3.3). This and ProxyFields are errors if there is no Addr that they are for.
	HTTP2 bool

	// ACME gets certificates from an authority, and renews them, for Addr, for Listeners with ACME,
	// and for a [[listener]] with tls = { acme = true }. The TLS of these may be nil, or has
	// everything but certificates. nil: none, or that of the configuration.
	ACME *ACME

	// TrustedProxies are the peers at Addr whose word on the client is believed, as the key
	// trusted_proxies: networks or addresses, such as "10.0.0.0/8", and "unix:" for all who connect to
	// a UNIX socket. A request from one of them has the client's address (Request.RemoteAddr), scheme
	// and host of its header fields: those of X-Forwarded-For, or, if ProxyFields is "forwarded",
	// Forwarded (RFC 7239), or, if it is "x-real-ip", X-Real-IP. With ProxyProtocol, their connections
	// begin with a header of the PROXY protocol. See docs/use/operate.md.
	TrustedProxies []string
	ProxyFields    string // "" and "x-forwarded" are the same
	ProxyProtocol  bool

	// Listeners are further places to listen, on the same loops.
	Listeners []Listener

	// File is the path of a configuration, as lwango.conf, and Config is the text of one; "": there is
	// none. Only one of them can be set. Sites and modules (RegisterModule) come from it. Other fields
	// replace its keys, and Addr and Listeners, if set, replace its listeners. [pubsub] max_bytes
	// holds for the process, and the last one wins.
	//
	// Relative paths in File begin in its folder; those in Config, and those of a File in FS, in the
	// working directory. Errors in a Config name it Config.
	File, Config string

	// FS has File, and the files that File or Config includes, by paths as in fs.ValidPath; nil: they
	// are files of the system. All else that a configuration names, such as folders to serve, is of
	// the system, also with an FS.
	FS fs.FS

	// PubsubURL is where the broker of UseBroker is, such as "redis://127.0.0.1:6379/0": the key url
	// of [pubsub]. Topics belong to the process, so only one running Server may have one.
	PubsubURL string

	// Limits of connections and requests, such as MaxBodySize: the keys of those names in
	// lwango.conf.
	Limits

	// Grace is how long a stop waits for requests in flight, 24 h at most; 0: 5 s; negative: 24 h.
	Grace time.Duration

	Threads int          // loops; 0: one for each CPU
	Workers int          // functions off each loop at a time (Request.Await); 0: 64
	Handoff coro.Handoff // coro.Channel for handlers that lock their OS thread

	// NoCompression switches off compression for clients that accept it.
	NoCompression bool

	// AccessLog is called when a request has been answered; nil: no function. It must not wait. All
	// loops, and other goroutines, call it at the same time. The entry is valid until it returns.
	AccessLog func(*AccessEntry)

	// Logger gets the server's log, mostly on loops. A Logger that waits for the reader of the log
	// blocks a loop. nil: slog's default logger or, if the program has not set that, one that writes
	// to stderr and never waits, like that of Run.
	Logger *slog.Logger

	obtain certs.Options // of tests
}

// Listener is one place where a Server listens.
type Listener struct {
	Addr string // as Server.Addr; "" with a Socket

	// Socket is a net.Listener of a TCP or UNIX socket (a descriptor becomes one by os.NewFile and
	// net.FileListener). From Start on it belongs to the Server, which closes it at the end, and also
	// if Start fails. All loops accept from the one socket.
	Socket net.Listener

	TLS   *tls.Config // as Server.TLS
	ACME  bool        // it has the certificates of Server.ACME, or of [tls] acme
	HTTP2 bool        // as Server.HTTP2

	TrustedProxies []string // as Server.TrustedProxies, and so the next ones
	ProxyFields    string
	ProxyProtocol  bool

	// Streams handles connections that do not speak HTTP; nil: they speak HTTP. It is called whenever
	// a connection has something to read: see stream.StartServer. MaxConnections does not count them.
	// Idle is how long a connection may have nothing to read; 0 or negative: without limit. It is an
	// error without Streams.
	Streams func(t *loop.Thread, s *stream.Conn) error
	Idle    time.Duration
}

// ACME says how to get certificates by ACME (RFC 8555). The authority connects to port 443 of each
// name, which must lead to a listener that has ACME, or to port 80, which must lead to one without
// TLS (the challenges tls-alpn-01 and http-01). Until a name has its certificate, handshakes for it
// fail, and are logged.
type ACME struct {
	// Domains are the names; each gets a certificate of its own. Names in one string, with spaces
	// between them, get one together.
	Domains   []string
	Email     string // where the authority may write to; "": nowhere
	Directory string // the authority's URL; "": Let's Encrypt
	// Challenges are how names are proved, in turns: "tls-alpn-01", "http-01"; nil: those that the
	// listeners can answer. "dns-01" alone is for wildcards, too, and needs UseDNS.
	Challenges []string
	// Cache is the folder of certificates and keys, whose parent exists; "": acme in $STATE_DIRECTORY
	// or else the working directory. Servers of several processes may share one.
	Cache string
}

type (
	// Service answers requests. A Handler is a Service, and so is a router of package handlers.
	Service = conn.Service

	// Limits are the limits of a Server. See conn.Limits.
	Limits = conn.Limits

	// AccessEntry describes an answered request, for Server.AccessLog.
	AccessEntry = conn.AccessEntry

	// Env describes the route of a module. See handlers.Env.
	Env = handlers.Env
)

// ErrStopped is the error of calls that need a server that runs.
var ErrStopped = server.ErrStopped

// ListenAndServe serves h at addr until ctx ends. It is Server{Addr: addr, Handler: h}.Run(ctx).
func ListenAndServe(ctx context.Context, addr string, h Service) error {
	return Server{Addr: addr, Handler: h}.Run(ctx)
}

// ListenStreams serves connections that do not speak HTTP, on loops for all CPUs, until ctx ends.
// It calls h when a connection has something to read, on a thread of the connection's own: see
// stream.StartServer. A connection may be idle for idle; negative: without limit. Server.Listeners
// offers the same for a server that does other things as well.
//
// A handler may also stay with its connection, and read message after message: stream.Session makes
// h of such a handler, whose reads end at a stop, as in the example.
func ListenStreams(ctx context.Context, addr string, idle time.Duration,
	h func(t *loop.Thread, s *stream.Conn) error) error {
	if idle == 0 {
		idle = 1 // for a Listener, 0 is no limit
	}
	return Server{Listeners: []Listener{{Addr: addr, Streams: h, Idle: idle}}}.Run(ctx)
}

// RegisterModule adds a module, for `module = "name"` in the routes of configurations. Its settings
// are the fields of S, a struct, with `toml:"key"` tags; a route begins with defaults. build makes
// the handler of a route, when a configuration is read; an error about a key is one of
// handlers.BadKey. The optional traits tell the cache how to treat the module's answers. See
// handlers.RegisterModule. It is called before Main, Run or Start, by one goroutine at a time, and
// panics if the name is taken.
func RegisterModule[S any](name string, defaults S, build func(S, Env) (Handler, error),
	traits ...handlers.Trait) {
	handlers.RegisterModule(program.Modules, name, defaults, build, traits...)
}

// Run is Start and Wait: it serves until ctx ends, and returns nil then. It is no error if
// connections are still at work after Grace, and are cut. But a handler that blocks its loop cannot
// be cut, and is an error: see loop.StuckError.
func (s Server) Run(ctx context.Context) error {
	r, err := s.Start(ctx)
	if err != nil {
		return err
	}
	return r.Wait()
}

// Start starts the server, which stops when ctx ends. When it returns, clients can connect. Its
// error is about a wrong field, the configuration (one line for each mistake), or an address at
// which it cannot listen. An address at which another server listens is an error
// (syscall.EADDRINUSE), also within the process.
func (s Server) Start(ctx context.Context) (*Running, error) {
	src, end := s.source(), func() {}
	src.Obtain = s.obtain
	if src.Logger = s.Logger; src.Logger == nil {
		if src.Logger = slog.Default(); src.Logger == initialLogger {
			own := asynclog.New(os.Stderr)
			src.Logger, end = own.Logger(), func() { own.Close(time.Second) }
		}
	}
	r, err := program.Start(ctx, src, end)
	if err != nil {
		return nil, err
	}
	return &Running{r}, nil
}

// source returns the settings of s that replace keys of a file.
func (s Server) source() config.Source {
	code := &config.Config{Limits: s.Limits, Grace: s.Grace, Threads: s.Threads, Workers: s.Workers,
		Pubsub: config.Pubsub{URL: s.PubsubURL}}
	if s.Handoff != coro.Direct {
		code.Handoff = s.Handoff.String()
	}
	if s.NoCompression {
		code.Compress.On = new(bool)
	}
	if a := s.ACME; a != nil {
		code.TLS.ACME = &certs.ACME{Email: a.Email, Domains: a.Domains, Cache: a.Cache,
			Challenges: a.Challenges, Authority: certs.Authority{Directory: a.Directory}}
	}
	var wrong error
	listeners := s.Listeners
	switch {
	case s.Addr != "" || s.TLS != nil || len(s.TrustedProxies) > 0 || s.ProxyProtocol ||
		len(listeners) == 0 && s.File == "" && s.Config == "":
		own := Listener{Addr: cmp.Or(s.Addr, config.DefaultListen), TLS: s.TLS, ACME: s.ACME != nil,
			HTTP2: s.HTTP2, TrustedProxies: s.TrustedProxies, ProxyFields: s.ProxyFields,
			ProxyProtocol: s.ProxyProtocol}
		listeners = append([]Listener{own}, listeners...)
	case s.HTTP2:
		wrong = errors.New("HTTP2: " + notForAddr)
	case s.ProxyFields != "":
		wrong = errors.New("ProxyFields: " + notForAddr)
	}
	for _, l := range listeners {
		if wrong == nil && l.Idle != 0 && l.Streams == nil {
			addr := l.Addr
			if addr == "" && l.Socket != nil {
				addr = sockets.GivenAddress(l.Socket).String()
			}
			wrong = fmt.Errorf("listen %s: Idle is for Streams; for HTTP there is KeepAliveTimeout", addr)
		}
		lc := config.Listener{Streams: l.Streams, Idle: cmp.Or(l.Idle, -1), HTTP2: l.HTTP2,
			TrustedProxies: l.TrustedProxies, ProxyFields: l.ProxyFields, ProxyProtocol: l.ProxyProtocol}
		lc.Listen, lc.Given, lc.TLS.Config = l.Addr, l.Socket, l.TLS
		if l.ACME {
			lc.TLS.Files = []certs.Files{{ACME: true}}
		}
		code.Listeners = append(code.Listeners, lc)
	}
	src := config.Source{File: s.File, Text: s.Config, FS: s.FS, Code: code, Wrong: wrong,
		AccessLog: s.AccessLog}
	h, ok := s.Handler.(Handler)
	if !ok && s.Handler != nil {
		h = s.Handler.Serve
	}
	if h != nil {
		src.Routes = []handlers.Route{{Prefix: "/", Handler: h}}
	}
	return src
}

const notForAddr = "there is no Addr that it is for; a Listener, or [[listener]], has its own"

// Running is a running server, from Server.Start. Any goroutine may call its methods, except that a
// handler must not wait for its own server.
type Running struct{ r *server.Running }

// Wait waits until the server has stopped because Start's ctx has ended. It returns an error if a
// loop has failed. After that the server's goroutines have ended, and its sockets are closed,
// except those that handlers have taken over (Hijack). If a handler blocks its loop when Grace is
// over, Wait returns two seconds later with a *loop.StuckError that says where; that loop stays,
// with its connections.
func (r *Running) Wait() error { return r.r.Wait() }

// Addrs returns the addresses at which the server listens, or has listened before it stopped, Addr
// first: "127.0.0.1:8080", with the port that the kernel has chosen, or "unix:/path".
func (r *Running) Addrs() []string { return r.r.Addrs() }

// Reload replaces the settings by next, from the next request on each connection on, and reads its
// File again. Addresses in both stay open. Connections stay, too, unless TLS asks for more than
// before: then they end with the answers that are under way. An address with port 0 keeps its port,
// in the order of such addresses for each host; an address with the port that Addrs returns means
// the same. Logger stays, and Threads, Workers, Handoff and PubsubURL cannot change: they are zero
// or as they were. Reload waits for the loops. Called on one, by a handler, it returns an error;
// Request.Await takes it off the loop. After an error everything is as it was, and Sockets in next
// that are not served are closed. The error is ErrStopped once the server stops.
func (r *Running) Reload(next Server) error { return r.r.Reload(program, next.source()) }

// Stats are counters of a server.
type Stats struct {
	Connections int          // open now, without hijacked ones and those of Listener.Streams
	Requests    int64        // that have begun since the start, including refused ones
	Loops       []loop.Stats // of each loop
}

// Stats asks all loops for their counters. It waits for a loop that a handler blocks, until ctx
// ends. The error is ErrStopped once the server has stopped.
func (r *Running) Stats(ctx context.Context) (s Stats, err error) {
	s.Connections, s.Requests, s.Loops, err = r.r.Counts(ctx)
	return s, err
}
