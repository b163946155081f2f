package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/handlers/limit"
	"github.com/lwango/lwango/internal/base/asynclog"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/tcpproxy"
	"github.com/lwango/lwango/internal/tls/certs"
	"github.com/lwango/lwango/pubsub"
)

// Exit codes of the program.
const (
	exitStopped = 0 // by a signal, in order
	exitFailure = 1 // it could not start or go on, or a second signal interrupted its stop
	exitUsage   = 2 // the command line or the configuration is wrong
)

// Program is a server program: its modules, and the routes that are compiled in.
type Program struct {
	Topics pubsub.Hub    // what its handlers publish and subscribe to
	Broker pubsub.Broker // carries them to other processes; nil: none

	DNS certs.TXTRecords // proves names for ACME; nil: nothing

	Modules *handlers.Registry // does not change once a server runs

	counters config.Counters
	streams  tcpproxy.Hub
	cache    *cache.Store

	patterns handlers.Mux // patterns of Handle with a method, a host or a wildcard

	mu     sync.Mutex
	routes []handlers.Route
	layers []handlers.Middleware
}

// NewProgram makes a program of these modules and handlers.
func NewProgram(modules *handlers.Registry) *Program { return &Program{Modules: modules} }

// Handle adds a compiled-in route, if prefix is a path without wildcards, or else a pattern (see
// handlers.Mux). As http.Handle does, it panics if the pattern is invalid, or is the same as an
// earlier one or conflicts with one: these are mistakes of the program. It is safe for any
// goroutine and has no effect on a server that runs already.
func (p *Program) Handle(prefix string, h conn.Handler) {
	if !strings.HasPrefix(prefix, "/") || strings.Contains(prefix, "{") {
		p.patterns.Handle(prefix, h)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	routes := append(slices.Clip(p.routes), handlers.Route{Prefix: prefix, Handler: h})
	if _, err := handlers.NewRouter([]handlers.Site{{Routes: routes}}); err != nil {
		var re *handlers.RouteError
		if errors.As(err, &re) {
			err = re.Err
		}
		panic(fmt.Sprintf("lwango: Handle: %v", err))
	}
	if err := p.patterns.Reserve(prefix); err != nil {
		panic(fmt.Sprintf("lwango: Handle: %v", err))
	}
	p.routes = routes
}

// Use puts layers around the choice of the route, on every site, within those of the site's
// configuration; the first one is the outermost. It is safe for any goroutine and has no effect on
// a server that runs already.
func (p *Program) Use(layers ...handlers.Middleware) {
	caller := handlers.Caller()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range layers {
		p.layers = append(p.layers, handlers.Checked(l, caller))
	}
}

// RegisterMiddleware gives m the name by which a site or a route of the configuration uses it. It
// panics if the name is empty or taken. It is safe for any goroutine and has no effect on a server
// that runs already.
func (p *Program) RegisterMiddleware(name string, m handlers.Middleware) {
	checked := handlers.Checked(m, handlers.Caller())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Modules.RegisterMiddleware(name, checked)
}

// logWait is how long the end of the program waits for the reader of its log.
const logWait = time.Second

// Main runs the program until a signal or the end of ctx stops it, and returns the exit code. If
// the command line names no configuration, Main reads file, if that exists. Errors go to stderr,
// and so does the log, unless slog's default is an asynclog already; the output of flags goes to
// stdout.
func (p *Program) Main(ctx context.Context, o *Options, file string, stdout, stderr io.Writer) int {
	log := slog.Default()
	logs := asynclog.Of(log)
	if logs != nil {
		defer logs.Flush(logWait)
	} else {
		logs = asynclog.New(stderr)
		log = logs.Logger()
		defer logs.Close(logWait)
	}
	handed, err := takeHandover()
	if err != nil {
		fmt.Fprintf(stderr, "lwango: %v\n", err)
		return exitFailure
	}
	src, err := p.source(o, file, log)
	if err != nil {
		fmt.Fprintf(stderr, "lwango: %v\n", err)
		return exitUsage
	}
	if o.upgrade {
		c, err := src.LoadForUpgrade()
		if err != nil {
			return misconfigured(stderr, err)
		}
		return requestUpgrade(c, stdout, stderr)
	}
	signals := newSignals()
	if !o.show && !o.check {
		signals.early()
		defer signals.end()
	}
	src.Confining = true
	manager := findManager(asynclog.Priority(log)) // its socket may be out of reach later
	defer manager.close()
	c, err := src.Load()
	if err != nil {
		return misconfigured(stderr, err)
	}
	if o.show {
		if err := c.WriteInForce(stdout, src); err != nil {
			fmt.Fprintf(stderr, "lwango: -T: %v\n", err)
			return exitFailure
		}
		return 0
	}
	if o.check {
		err := c.CheckCacheFolder(false)
		if err == nil && c.Confine != nil {
			err = tryConfined(c, src)
		}
		if err != nil {
			fmt.Fprintln(stderr, err) // it begins with file and line
			return exitUsage
		}
		fmt.Fprintf(stdout, "%s: ok\n", cmp.Or(src.File, "built-in defaults"))
		for _, w := range c.Certs().Warnings(time.Now()) {
			fmt.Fprintf(stderr, "lwango: warning: the certificate %s (%s) %s\n", w.Cert, w.Position,
				w.Problem)
		}
		if w := c.ACMEWarning(); w != "" {
			fmt.Fprintf(stderr, "lwango: warning: tls.acme.challenges: %s\n", w)
		}
		if o.asked != "" {
			if err := c.Explain(stdout, o.asked); err != nil {
				fmt.Fprintf(stderr, "lwango: -u: %v\n", err)
				return exitUsage
			}
		}
		return 0
	}

	// If the reader of the log goes away, the server goes on.
	signal.Ignore(syscall.SIGPIPE)
	c.ErrorLog.Apply(logs)
	signals.late()

	program := findProgram(o.args)
	if handed != nil {
		program.ofInit = false // another lwango has started it, even if that has ended by now
	}
	s, err := start(src, c, handed)
	if err != nil {
		asynclog.Priority(log).Error("cannot start", "error", err)
		return exitFailure
	}
	s.program = program
	s.manager = manager
	if handed != nil {
		s.handed = nil // a reload opens sockets of its own
		s.takeOver(handed)
	} else {
		s.manager.ready(s.state())
	}
	err = s.untilStopped(ctx, signals, nil)
	logs.SetOutput(nil)
	if err != nil {
		return exitFailure
	}
	return exitStopped
}

// misconfigured prints the errors of a configuration, and returns their exit code.
func misconfigured(stderr io.Writer, err error) int {
	// settings.Errors begin with file and line, which editors look for.
	if !errors.As(err, new(settings.Errors)) {
		err = fmt.Errorf("lwango: %w", err)
	}
	fmt.Fprintln(stderr, err)
	return exitUsage
}

// untilStopped obeys signals until the loops have ended. It returns nil if they were stopped in
// order, and otherwise an error that it has logged. It ignores the first signal after the end of
// ctx, since that signal may be the one that has ended ctx. It also ignores the first one after
// drain has passed: a service manager may stop the service then, and signals this process, too.
//
// It also runs the functions of calls, since its goroutine owns the server.
func (s *server) untilStopped(ctx context.Context, signals *signals, calls <-chan func()) error {
	var failure error
	ended, done := s.ended, ctx.Done()
	var stopped chan error
	look := time.NewTicker(certsInterval)
	defer look.Stop()
	var unused memoryReleaser
	spare := time.NewTicker(memoryInterval)
	defer spare.Stop()
	spareNext := false // the next signal does not end the program at once
	beat, endBeat := s.manager.heartbeat()
	defer endBeat()
	var delayed <-chan time.Time // the end of stop_delay; nil: it has not begun, or is over
	stop := func() {
		delayed = nil
		s.upgrade.giveUp()
		s.manager.stopping(s.config.Grace, fmt.Sprintf("stopping: %d connections have %v",
			s.openConnections(), s.config.Grace))
		s.stop()
		ended = nil // from here on, wait returns the errors
		stopped = make(chan error, 1)
		go func() { stopped <- s.wait() }()
	}
	// begin begins to stop: with stop_delay, if there is one. why is an attribute of the log.
	begin := func(why string, value any) {
		if d := s.config.StopDelay; d > 0 && !s.replaced() {
			s.own.Info("not ready any more, listening on", why, value, "stop_delay", d)
			s.leave()
			delayed = time.After(d)
			return
		}
		active := s.openConnections()
		stop()
		s.own.Info("stopping", why, value, "grace", s.config.Grace, "connections", active)
	}
	for {
		select {
		case <-signals.reload:
			if !s.stopping() && len(signals.stop) == 0 { // a stop does not wait for a reload
				s.hup()
			}
		case <-signals.reopen:
			s.access.Reopen()
			s.reopenErrorLog()
		case <-signals.upgrade:
			s.beginUpgrade(s.stopping())
		case sig := <-signals.stop:
			switch {
			case !s.stopping():
				begin("signal", sig.String())
			case spareNext:
				spareNext = false
				s.own.Info("stopping already", "signal", sig.String())
			case stopped == nil:
				active := s.openConnections()
				stop()
				s.own.Info("stopping, stop_delay is cut short", "signal", sig.String(), "grace",
					s.config.Grace, "connections", active)
			default:
				s.own.Warn("stopped at once", "signal", sig.String(), "connections", s.openConnections())
				s.access.CloseWithin(cutWait) // every answered request has its line
				return errCutShort
			}
		case f := <-calls:
			f()
		case <-beat:
			s.alive()
		case e := <-s.upgrade.events():
			if stopped == nil && s.upgraded(e) {
				stop()
				spareNext = true // the manager may stop the service now, and signals all its processes
			}
		case now := <-look.C:
			if stopped == nil {
				s.renewCerts(now)
			}
		case <-spare.C:
			unused.check(s.openConnections(), time.Now())
		case <-s.obtainer.News:
			if stopped == nil {
				s.renewCerts(time.Now())
			}
		case <-done:
			done = nil
			if !s.stopping() {
				begin("cause", context.Cause(ctx))
				spareNext = true
			}
		case <-delayed:
			active := s.openConnections()
			stop()
			s.own.Info("stopping, stop_delay is over", "grace", s.config.Grace, "connections", active)
		case err := <-ended:
			s.own.Error("a loop has ended, stopping", "error", err)
			failure = fmt.Errorf("a loop has ended: %w", cmp.Or(err, errNoReason))
			stop()
		case err := <-stopped:
			if err != nil {
				s.own.Error("a loop failed", "error", err)
				failure = errors.Join(failure, fmt.Errorf("a loop failed: %w", err))
			}
			s.own.Info("stopped")
			return failure
		}
	}
}

// openConnections returns how many connections are open, including those that do not speak HTTP.
func (s *server) openConnections() int {
	return s.conn.Active() + int(s.sessions.Load()) + s.source.Hub.Open()
}

// hup reads the configuration again. A process that is being replaced leaves that to the new one.
func (s *server) hup() {
	if s.replaced() {
		s.own.Warn("reload refused: another process has taken the place of this one", "pid",
			s.upgrade.process.Pid)
		return
	}
	if s.upgrade.underWay() {
		s.upgrade.reload = true
		return
	}
	s.manager.reloading()
	before := s.config
	s.logReload(before, s.reload())
	s.manager.ready(s.state())
}

// cutWait is how long a second signal waits for the last lines of access logs.
const cutWait = 500 * time.Millisecond

var (
	errCutShort = errors.New("stopped at once by a second signal")
	errNoReason = errors.New("without an error")
)

// logReload logs the result of a reload. before is the configuration until then.
func (s *server) logReload(before *config.Config, err error) {
	s.observed.noteReload(err)
	var all settings.Errors
	switch {
	case err == nil && s.source.File == "" && s.source.Text == "" && s.source.Code != nil:
		s.own.Info("reloaded", "by", "the program")
	case err == nil:
		file := cmp.Or(s.config.File, s.source.File, "built-in defaults")
		if s.source.Text != "" {
			file = config.TextName
		}
		s.own.Info("reloaded", append([]any{"file", file}, differences(before, s.config)...)...)
	case errors.As(err, &all):
		for _, e := range all {
			s.own.Error("reload refused, everything stays as it was", "error", e)
		}
	default:
		s.own.Error("reload refused, everything stays as it was", "error", err)
	}
	s.explainSandbox(err)
}

// complete puts the program's modules, topics, routes and layers into s. A server in code may have
// a handler of its own instead; without a file, it sets neither limits of the topics nor their
// broker.
func (p *Program) complete(s *config.Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Modules, s.Broker, s.Counters, s.Hub = p.Modules, p.Broker, &p.counters, &p.streams
	s.DNS = p.DNS
	s.Cache, s.Limits = p.cacheLocked(), cmp.Or(s.Limits, new(limit.Store))
	if s.Code == nil || s.File != "" || s.Text != "" || s.Code.Pubsub.URL != "" {
		s.Topics = &p.Topics
	}
	if s.Routes == nil {
		s.Routes, s.Patterns = p.routes, p.patterns.Snapshot()
		s.Around = handlers.Chain(slices.Clone(p.layers)...)
	}
}

// source decides once, for the whole run, which file is read: a reload must not read a file that
// was put into the working directory meanwhile.
func (p *Program) source(o *Options, file string, log *slog.Logger) (config.Source, error) {
	s := config.Source{File: o.file, Listen: o.listen, Root: o.root, Logger: log}
	p.complete(&s)
	if o.file == "" && o.root == "" {
		switch _, err := os.Stat(file); {
		case err == nil:
			s.File = file
		case !errors.Is(err, fs.ErrNotExist):
			return s, err
		}
	}
	return s, nil
}
