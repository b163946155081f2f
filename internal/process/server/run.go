package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/asynclog"
	"github.com/lwango/lwango/internal/base/openfiles"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/sockets"
	"github.com/lwango/lwango/internal/tls/certs"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// server is a running server: its loops, its listeners and its configuration. Its methods are for
// one goroutine.
type server struct {
	source    config.Source
	log       *slog.Logger // for what clients cause, and for the packages below
	own       *slog.Logger // for what the server itself does; its lines are never dropped
	config    *config.Config
	conn      *conn.Server
	sessions  atomic.Int64 // connections that do not speak HTTP
	loops     []*loop.Loop
	watchdog  *loop.Watchdog
	reserved  int // descriptors, see reserve
	listeners map[sockets.Address]*listener
	access    *accesslog.Logs

	// disconnect ends the work of the broker; nil if the topics are this process's own.
	disconnect func(grace time.Duration) (unsent int)

	manager *serviceManager
	pid     *pidFile // nil: none
	program program  // what an upgrade starts
	upgrade *upgrade // the last upgrade; nil: none

	debug    *debugServer // nil: [debug] has no address
	observed *observed    // what handlers see of s

	purgeReceiver *purgeReceiver // of the processes before this one; nil: none
	handed        *handover      // of the process before, until this one has taken over; nil: none
	sandbox       sandbox
	obtainer      *certs.Obtainer
	warned        time.Time      // when warnOfCerts was called
	leaving       bool           // leave was called
	until         time.Time      // the end of the grace period, set by stop
	process       *process       // what the kernel says of it
	drainReports  *drainReports  // of the processes before this one; nil: none
	running       sync.WaitGroup // loops
	ended         chan error     // of each loop, or nil, when it ends; none should before stop
}

// start makes the loops and listeners of a configuration and lets them run, each loop on a
// goroutine of its own which is not locked to a thread. When it returns, clients can connect.
func start(src config.Source, c *config.Config, handed *handover) (*server, error) {
	s := &server{source: src, handed: handed, log: src.Logger, own: asynclog.Priority(src.Logger),
		config:    c,
		listeners: map[sockets.Address]*listener{}}
	s.obtainer = certs.NewObtainer(src.Obtain, s.own)
	s.access = accesslog.New(s.log, s.own, src.AccessLog)
	if err := s.start(); err != nil {
		for _, l := range s.listeners {
			l.socket.Remove()
			l.discard()
		}
		if h := handed; h != nil && h.pid {
			s.pid.close()
		} else {
			s.pid.remove()
		}
		for _, l := range s.loops {
			l.Close()
		}
		s.process.close()
		s.debug.close()
		if s.watchdog != nil {
			s.watchdog.Close()
		}
		s.access.Close()
		if logs := s.ownLog(); logs != nil {
			logs.SetOutput(nil) // where the error is looked for
		}
		if s.disconnect != nil {
			s.disconnect(0)
		}
		s.reserve(0)
		return nil, err
	}
	return s, nil
}

// opening is held while a server makes its loops or sockets. Otherwise another server of the same
// process would not count these loops when it reserves processors, and might take the same port
// between the probe and the bind (see openTCP).
var opening sync.Mutex

// makeLoops makes the loops. They do not run yet.
func (s *server) makeLoops() error {
	opening.Lock()
	defer opening.Unlock()
	handoff, err := coro.ParseHandoff(s.config.Handoff)
	if err != nil {
		return err
	}
	for range loop.Reserve(s.config.Threads) {
		l, err := loop.New(loop.Options{Handoff: handoff, Workers: s.config.Workers, Logger: s.log})
		if err != nil {
			return err
		}
		s.loops = append(s.loops, l)
	}
	s.config.Loops = s.loops
	s.ended = make(chan error, len(s.loops))
	return nil
}

func (s *server) start() (err error) {
	if s.source.Code == nil { // in another program, these may belong to the program: see open
		if _, err := sockets.Inherited(); err != nil {
			return err
		}
	}
	if path := s.config.PIDFile; path != "" {
		if s.pid = s.handed.pidFile(path); s.pid == nil {
			if s.pid, err = openPIDFile(path); err != nil {
				return s.config.Table.Wrong("pid_file", err)
			}
		}
	}
	if err := s.makeLoops(); err != nil {
		return err
	}
	for _, lc := range s.config.Listeners {
		if s.listeners[lc.Address], err = s.open(lc); err != nil {
			delete(s.listeners, lc.Address)
			return err
		}
	}
	if _, err := s.config.MakeFolders(); err != nil {
		return err
	}
	s.process = newProcess()
	if err := s.confine(); err != nil {
		return err
	}
	sinks, err := s.access.Open(s.config.AccessLogs())
	if err != nil {
		return err
	}
	s.access.Use(s.config.AccessLogs(), sinks)
	own, err := s.openErrorLog(s.config)
	if err != nil {
		return err
	}
	own.use()
	s.limitTopics()
	if err := s.connectTopics(); err != nil {
		return err
	}
	s.notePorts(s.config, nil)
	s.conn = conn.NewServer(s.connConfig())
	s.watchdog = loop.NewWatchdog(s.log, s.config.Watchdog, s.loops...)
	s.drainReports = s.handed.drainReports()
	s.observe(s.config)
	if h := s.handed; h != nil {
		for _, u := range s.config.Upstreams {
			u.Inherit(h.Upstreams)
		}
	}
	if s.debug, err = s.debugFor(s.config); err != nil {
		return err
	}
	for _, l := range s.listeners {
		for i := range s.loops {
			if err := s.serve(l, i); err != nil {
				return err
			}
		}
	}
	if s.handed == nil { // otherwise see takeOver
		if err := s.pid.write(os.Getpid()); err != nil {
			return err
		}
	}
	s.config.OpenCache(nil)
	s.sharePurges()
	s.debug.start()
	for _, l := range s.loops {
		s.running.Go(func() { s.ended <- l.Run() })
	}
	s.config.Begin()
	s.observed.record(s.config)
	s.subscribePurges()
	s.shareLimits()
	s.purgeReceiver = s.handed.receivePurges(s)
	s.drainReports.begin()
	if s.handed == nil { // otherwise see takeOver
		s.obtainer.Obtain(s.config.ACME())
	}
	for _, lc := range s.config.Listeners {
		s.announce(s.listeners[lc.Address])
	}
	s.notice()
	return nil
}

// stopping reports whether leave or stop was called.
func (s *server) stopping() bool { return s.leaving || !s.until.IsZero() }

// leave lets the server serve on for stop_delay while it says that it is not ready. Each connection
// ends behind its next answer, so that none is left on which a request may be on its way when the
// listeners close.
func (s *server) leave() {
	s.leaving = true
	s.upgrade.giveUp()
	s.upgrade = nil
	cc := s.connConfig()
	cc.Leaving = true
	s.conn.Configure(cc)
	s.config.Stop()
	s.manager.stopping(s.config.StopDelay+s.config.Grace,
		fmt.Sprintf("not ready, listening for another %v", s.config.StopDelay))
}

// state says for people what the server does.
func (s *server) state() string {
	var at []string
	for _, lc := range s.config.Listeners {
		if l := s.listeners[lc.Address]; l != nil {
			at = append(at, l.socket.Display)
		}
	}
	text := "serving at " + abridged(at)
	switch r := s.observed.reload.Load(); {
	case r.Last.IsZero():
	case r.Error != "":
		text += r.Last.Format("; reload refused at 15:04:05: ") + r.Error
	default:
		text += r.Last.Format("; reloaded at 15:04:05")
	}
	return text
}

// stop stops listening and tells the loops to end within the grace period. It does not wait.
func (s *server) stop() {
	s.until = time.Now().Add(s.config.Grace)
	s.config.Stop()
	s.config.End()
	s.obtainer.Leave()
	s.closeListeners()
	for _, l := range s.loops {
		l.Stop(s.config.Grace)
	}
}

// closeListeners closes this goroutine's descriptors of the listening sockets. The loops accept the
// connections in the queues, and then close theirs.
func (s *server) closeListeners() {
	for _, l := range s.listeners {
		l.socket.Remove()
		l.socket.Close()
	}
}

// stuckLimit is how long, after the grace period, the stop waits for a loop that does not turn.
var stuckLimit = 2 * time.Second

// awaitLoops waits until the loops have ended, after stop, and returns their errors that are still
// in s.ended. It does not wait for a loop that a handler blocks for good.
func (s *server) awaitLoops() error {
	var waiting sync.WaitGroup
	stuck := make([]error, len(s.loops))
	for i, l := range s.loops {
		waiting.Go(func() { stuck[i] = l.Layer().AwaitEnd(s.until, stuckLimit) })
	}
	waiting.Wait()
	errs := []error{errors.Join(stuck...)}
	if errs[0] == nil {
		s.running.Wait() // the errors are in s.ended
	}
	for {
		select {
		case err := <-s.ended:
			errs = append(errs, err)
		default:
			return errors.Join(errs...)
		}
	}
}

// wait waits until all loops have ended, after stop. It returns the errors of loops that have
// failed since or do not end.
func (s *server) wait() error {
	failed := s.awaitLoops()
	s.config.CloseCache()
	s.obtainer.Wait()
	s.watchdog.Close()
	s.observed.close()
	s.drainReports.end()
	s.process.close()
	s.debug.close()
	if s.disconnect != nil {
		// Threads that were killed at the end may have published in deferred calls.
		if unsent := s.disconnect(max(time.Until(s.until), time.Second)); unsent > 0 {
			s.own.Warn("messages have not reached the broker", "messages", unsent)
		}
	}
	s.access.Close()
	s.reserve(0)
	if s.replaced() && s.upgrade.pidFile {
		s.pid.close()
	} else {
		s.pid.remove()
	}
	return failed
}

// ownDescriptors estimates how many descriptors the server itself holds: for each loop those of
// epoll, of its eventfd and the spare one; each listener's sockets and their duplicates; standard
// streams, logs, a broker, Go's own poller, and what a reload opens beside all that.
func ownDescriptors(loops, listeners int) int { return 32 + loops*(3+3*listeners) }

// reserve reserves n of the process's descriptors for the server itself.
func (s *server) reserve(n int) {
	openfiles.Process.Reserve(n - s.reserved)
	s.reserved = n
}

// connConfig translates the configuration for package conn, and reserves descriptors.
func (s *server) connConfig() conn.Config {
	c := s.config
	cc := conn.Config{
		Limits:          c.Limits,
		Handler:         s.handler(),
		LargestBodySize: c.LargestBody,
		Refuses:         true, // the router does
		Count:           c.Counted,
		RouteName:       s.source.Counters.Name,
		AccessLog:       s.access.Default(c.AccessLog),
		Logger:          s.log,
	}
	s.reserve(ownDescriptors(len(s.loops), len(c.Listeners)) +
		2*len(c.AccessLogs()) + c.Descriptors) // during a reload, old and new ones are open
	all := openfiles.Process
	kept := all.Share(c.OpenFiles + c.OpenFilesPerLoop*len(s.loops) + stream.MaxPipeDescriptors())
	cc.Reserved = s.reserved + kept
	left := max(all.Limit()-cc.Reserved, 0)
	if most := c.Complete(0, cc.Reserved).MaxConnections; most > left {
		what := "max_connections is more than the descriptor limit allows"
		if c.MaxConnections == 0 {
			what = "the descriptor limit leaves few for connections"
		}
		s.own.Warn(what, "max_connections", most, "descriptor_limit", all.Limit(),
			"reserved", s.reserved, "of_these_by_routes", c.Descriptors, "kept_at_hand", kept, "left", left)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		for _, value := range c.Headers[name] {
			cc.Headers = append(cc.Headers, conn.Field{Name: name, Value: value})
		}
	}
	cc.Proxies = map[string]*conn.Proxies{}
	for _, l := range c.Listeners {
		if l.Proxies != nil {
			cc.Proxies[l.Address.ListenerName()] = l.Proxies
		}
	}
	return cc
}

// challengePath is below which path an authority looks for the proof of a name (RFC 8555 section
// 8.3).
var challengePath = []byte("/.well-known/acme-challenge/")

// handler returns the router. Where certificates are obtained, the proofs of names come before it:
// a site may redirect all clients of http, ask for passwords, or not be there yet.
func (s *server) handler() conn.Handler {
	route := s.config.Router.Serve
	if s.config.ACME() == nil {
		return route
	}
	return func(req *conn.Request, resp *conn.Response) int {
		near, far := s.obtainer.Proving()
		if !near && !far || req.Secure() {
			return route(req, resp)
		}
		token, ok := bytes.CutPrefix(req.Layer().PathView(), challengePath)
		if !ok || len(token) == 0 {
			return route(req, resp)
		}
		text, ok := s.obtainer.Proof(string(token))
		if !ok && far {
			token := string(token)
			text, _ = conn.Await(req, -1, func(ctx context.Context) (string, error) {
				return s.obtainer.FarProof(ctx, token), nil
			})
		}
		if text == "" {
			return route(req, resp)
		}
		resp.Header().Set("Content-Type", "application/octet-stream")
		resp.SetBody([]byte(text))
		return http.StatusOK
	}
}

// notice logs effects of the configuration that the operator may not expect.
func (s *server) notice() {
	if s.config.File == "" && s.source.Root == "" && s.source.Code == nil {
		s.own.Info("no configuration file: built-in defaults")
	}
	// This is an error only for a folder that the configuration names: perhaps no request needs it.
	if s.config.SpoolDir == "" {
		if err := sysio.CheckTempDir(""); err != nil {
			s.log.Warn("no temporary file can be made, so no large request body can be held; "+
				"set spool_dir", "error", err)
		}
	}
	s.warnOfCerts(time.Now())
	if w := s.config.ACMEWarning(); w != "" {
		s.own.Warn(w)
	}
}

// announce logs that clients can connect. Scripts wait for this line.
func (s *server) announce(l *listener) {
	s.own.Info("listening", "address", l.socket.Display, "tls", l.TLS != nil)
}

// open makes the sockets of a listener. Its errors name the position of the address in the
// configuration.
func (s *server) open(lc config.Listener) (_ *listener, err error) {
	defer func() {
		if err != nil {
			err = lc.Table.Wrong("address", err)
		}
	}()
	opening.Lock()
	defer opening.Unlock()
	ours := map[int]bool{}
	for addr := range s.listeners {
		ours[addr.Port()] = true
	}
	var sock *sockets.Socket
	sock, err = s.handed.open(lc.Address.String(), &lc.Endpoint, len(s.loops))
	if err != nil {
		return nil, err
	}
	if sock == nil {
		s.handed.ports(ours)
		if sock, err = sockets.Open(&lc.Endpoint, len(s.loops), ours); err != nil {
			return nil, err
		}
	}
	return newListener(sock, lc, len(s.loops), s.obtainer)
}

// serve lets the i-th loop accept from l. It is called on that loop, or before it runs.
func (s *server) serve(l *listener, i int) error {
	fds := l.given[i]
	l.given[i] = nil
	for j, fd := range fds {
		var h *loop.Listener
		var err error
		switch of := l.listening; {
		case of.stream != nil:
			h, err = of.stream.Listen(s.loops[i], fd, l.TLS)
		case of.streams != nil:
			h, err = stream.StartServerFD(s.loops[i], fd, of.idle, &s.sessions, of.streams)
		default:
			ln := l.Listener
			ln.FD = fd
			h, err = s.conn.Listen(s.loops[i], ln)
		}
		if err != nil {
			sockets.CloseAll(fds[j:])
			return fmt.Errorf("listen %s: %w", l.socket.Display, err)
		}
		l.handles[i] = append(l.handles[i], h)
	}
	return nil
}

// limitTopics gives the topics the limits of the present configuration. The topics belong to the
// process: a server that was started in code, perhaps one of several, changes the limits only if
// its File sets max_bytes.
func (s *server) limitTopics() {
	p := &s.config.Pubsub
	if s.source.Topics != nil && (s.source.Code == nil || p.Table.Has("max_bytes")) {
		s.source.Topics.LimitBytes(int(p.MaxBytes))
	}
}

// connectedHubs has each *pubsub.Hub that a server has connected with a broker. A hub has one
// broker at a time.
var connectedHubs sync.Map

// connectTopics lets the broker of the configuration, if there is one, carry the topics.
func (s *server) connectTopics() error {
	url, topics := s.config.Pubsub.URL, s.source.Topics
	if url == "" || topics == nil {
		return nil
	}
	if _, other := connectedHubs.LoadOrStore(topics, true); other {
		return errors.New("pubsub.url: another server of this process has connected the topics, " +
			"which all servers share; the key belongs into one configuration")
	}
	disconnect, err := s.source.Broker.Start(topics, url, s.log)
	if err != nil {
		connectedHubs.Delete(topics)
		return err
	}
	s.disconnect = func(grace time.Duration) int {
		defer connectedHubs.Delete(topics)
		return disconnect(grace)
	}
	return nil
}
