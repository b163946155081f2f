package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/certs"
	"github.com/lwango/lwango/internal/sockets"
	"github.com/lwango/lwango/internal/tags"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Embedding is what a program says in code, in the place of flags and a file. What is zero stands
// for what the file says, or else for the default. Package lwango documents the fields.
type Embedding struct {
	File          string
	Listeners     []Listening
	Handler       conn.Handler // nil: the routes of the Program
	NoCompression bool

	conn.Limits

	Grace   time.Duration
	Threads int
	Workers int
	Handoff coro.Handoff

	AccessLog func(*conn.AccessEntry)
}

// Listening is one listener of an Embedding.
type Listening struct {
	Addr    string
	Socket  net.Listener
	TLS     *tls.Config
	Streams func(*loop.Thread, *stream.Stream) error
	Idle    time.Duration
}

// limits puts the limits of e, which may be nil, into c, before they are checked.
func (e *Embedding) limits(c *config) error {
	if e == nil {
		return nil
	}
	if err := tags.Check(e.Limits); err != nil {
		return err
	}
	c.Limits = tags.Or(e.Limits, c.Limits)
	for _, n := range []struct {
		name string
		from int
		to   *int
		high int
	}{
		{"Threads", e.Threads, &c.Threads, 1024},
		{"Workers", e.Workers, &c.Workers, 1e5},
	} {
		if n.from == 0 {
			continue
		}
		if n.from < 1 || n.from > n.high {
			return fmt.Errorf("%s: must be between 1 and %d, found %d", n.name, n.high, n.from)
		}
		*n.to = n.from
	}
	if e.Grace != 0 {
		c.Grace = max(e.Grace, 0)
	}
	if e.Handoff != coro.Direct {
		c.Handoff = e.Handoff.String()
	}
	if e.NoCompression {
		c.Compress.On = new(bool)
	}
	return nil
}

// listeners puts the listeners of e, which may be nil, into c, in the place of those of the file.
// A relative path begins in dir. open are the addresses of sockets with ports that the kernel has
// chosen, by host and that port.
func (e *Embedding) listeners(c *config, dir string, open map[string]sockets.Address) error {
	if e == nil || len(e.Listeners) == 0 {
		return nil
	}
	c.Listeners = nil
	used := map[sockets.Address]bool{}
	var free []int // listeners with a port that the kernel chooses, or has chosen
	for _, l := range e.Listeners {
		lc := listenerConfig{Endpoint: sockets.Endpoint{Listen: l.Addr, Given: l.Socket},
			streams: l.Streams, idle: l.Idle}
		switch {
		case l.Socket != nil && l.Addr != "":
			return fmt.Errorf("listen %s: a Listener has an Addr or a Socket, not both", l.Addr)
		case l.Socket != nil:
			lc.Address = sockets.GivenAddress(l.Socket)
			lc.Listen = lc.Address.String()
		default:
			var err error
			if lc.Address, err = sockets.ParseAddress(l.Addr, dir); err != nil {
				return fmt.Errorf("listen %s: %w", l.Addr, err)
			}
		}
		switch {
		case l.Streams != nil && l.TLS != nil:
			return fmt.Errorf("listen %s: TLS is for HTTP, a handler of streams uses tls.Server",
				lc.Listen)
		case l.TLS != nil && len(l.TLS.Certificates) == 0 && l.TLS.GetCertificate == nil &&
			l.TLS.GetConfigForClient == nil:
			return fmt.Errorf("listen %s: TLS has no certificate", lc.Listen)
		case l.TLS != nil:
			lc.TLS.Config = certs.OnlyHTTP1(l.TLS)
		}
		if lc.Address.Port() == 0 {
			free = append(free, len(c.Listeners))
		} else {
			if chosen, ok := open[lc.Address.Name]; ok && lc.Address.Network == chosen.Network {
				lc.Address = chosen
			}
			if used[lc.Address] {
				return fmt.Errorf("listen %s: the address is listened to twice", lc.Listen)
			}
			used[lc.Address] = true
		}
		c.Listeners = append(c.Listeners, lc)
	}
	before := slices.SortedFunc(maps.Values(open), func(a, b sockets.Address) int {
		return cmp.Compare(a.Number, b.Number)
	})
	for _, i := range free {
		a := &c.Listeners[i].Address
		if at := slices.IndexFunc(before, func(b sockets.Address) bool {
			return b.Name == a.Name && !used[b]
		}); at >= 0 {
			*a = before[at]
		}
		for used[*a] {
			a.Number++
		}
		used[*a] = true
	}
	return nil
}

// ErrStopped is the error of a call that needs a server that runs.
var ErrStopped = errors.New("the server has stopped")

// Running is a server that Program.Start has started. Its methods are for any goroutine.
type Running struct {
	server *server // its goroutine's
	calls  chan func()
	done   chan struct{}
	err    error // once done is closed
}

// Start starts a server that stops at the end of ctx. When it returns, clients can connect. The
// server logs to log, and calls end when it has stopped, or has not started.
func (p *Program) Start(ctx context.Context, e *Embedding, log *slog.Logger,
	end func()) (_ *Running, err error) {
	defer func() {
		if err != nil {
			e.closeGiven(nil)
			end()
		}
	}()
	src := p.embedded(e, log)
	c, err := src.load()
	if err != nil {
		return nil, err
	}
	s, err := start(src, c, nil)
	if err != nil {
		return nil, err
	}
	r := &Running{server: s, calls: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		defer end()
		r.err = s.untilStopped(ctx, nil, r.calls)
	}()
	return r, nil
}

// embedded makes the source of e. A handler of e stands in the place of what
// Handle and Use were given. The topics get
// limits and a broker from a file only.
func (p *Program) embedded(e *Embedding, log *slog.Logger) source {
	p.mu.Lock()
	defer p.mu.Unlock()
	src := source{File: e.File, Modules: p.Modules, Broker: p.Broker, Logger: log, Embedding: e,
		Places: &p.places}
	if e.Handler != nil {
		src.Routes = []handlers.Route{{Prefix: "/", Handler: e.Handler}}
	} else {
		p.registered(&src)
	}
	if e.File != "" {
		src.Topics = &p.Topics
	}
	return src
}

// chosenPorts returns the addresses for which the kernel has chosen a port, by host and that port.
func (s *server) chosenPorts() map[string]sockets.Address {
	open := map[string]sockets.Address{}
	for a, l := range s.listeners {
		if a.Port() == 0 {
			open[l.socket.Shown] = a
		}
	}
	return open
}

// closeGiven closes the net.Listeners of e, but for those whose sockets s serves; s may be nil.
func (e *Embedding) closeGiven(s *server) {
	for _, l := range e.Listeners {
		if l.Socket == nil {
			continue
		}
		if s != nil {
			if old := s.listeners[sockets.GivenAddress(l.Socket)]; old != nil &&
				sockets.Same(l.Socket, old.config.Given) {
				continue
			}
		}
		_ = l.Socket.Close() // it may be closed
	}
}

// Wait waits until the server has stopped.
func (r *Running) Wait() error {
	<-r.done
	return r.err
}

// call runs f on the server's goroutine.
func (r *Running) call(f func(s *server)) error {
	called := make(chan struct{})
	select {
	case r.calls <- func() { f(r.server); close(called) }:
		<-called
		return nil
	case <-r.done:
		return ErrStopped
	}
}

// Reload puts e into force, by the rules of a reload. It waits for the loops, and so it refuses to
// be called on one.
func (r *Running) Reload(p *Program, e *Embedding) (err error) {
	if onLoop() {
		go func() { _ = r.call(e.closeGiven) }()
		return errOnLoop
	}
	failed := r.call(func(s *server) {
		if s.stopping() {
			err = ErrStopped
		} else if err = e.keeps(s); err == nil {
			before, config := s.source, s.config
			s.source = p.embedded(e, before.Logger)
			s.source.open = s.chosenPorts()
			if err = s.reload(); err != nil {
				s.source = before
			}
			s.logReload(config, err)
		}
		if err != nil {
			e.closeGiven(s)
		} else {
			e.closeDoubles(s)
		}
	})
	if failed != nil {
		e.closeGiven(nil)
	}
	return errors.Join(failed, err)
}

// keeps returns an error if e asks for what a server that runs cannot change. A zero field asks for
// nothing.
func (e *Embedding) keeps(s *server) error {
	changes := func(name string, has, wants any) error {
		return fmt.Errorf("%s: cannot change from %v to %v while the server runs", name, has, wants)
	}
	switch c := s.config; {
	case e.Threads != 0 && e.Threads != c.Threads && e.Threads != len(s.loops):
		return changes("Threads", len(s.loops), e.Threads)
	case e.Workers != 0 && e.Workers != c.Workers:
		return changes("Workers", c.Workers, e.Workers)
	case e.Handoff != coro.Direct && e.Handoff.String() != c.Handoff:
		return changes("Handoff", c.Handoff, e.Handoff)
	}
	return nil
}

// closeDoubles closes the net.Listeners of e whose sockets s has by other ones already.
func (e *Embedding) closeDoubles(s *server) {
	for _, l := range e.Listeners {
		if l.Socket == nil {
			continue
		}
		if has := s.listeners[sockets.GivenAddress(l.Socket)]; has == nil || has.socket.Given == l.Socket {
			continue
		}
		if u, ok := l.Socket.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(false)
		}
		_ = l.Socket.Close() // it may be closed
	}
}

// Addrs returns the addresses that are listened to, in the order of the configuration, with the
// ports that the kernel has chosen; none, once the server has stopped.
func (r *Running) Addrs() (all []string) {
	_ = r.call(func(s *server) {
		for _, lc := range s.config.Listeners {
			all = append(all, s.listeners[lc.Address].socket.Shown)
		}
	})
	return all
}

// Counts returns the number of open connections, and what each loop has counted of itself and of
// the requests on it. A loop that a handler holds up is waited for until ctx ends.
func (r *Running) Counts(ctx context.Context) (open int, requests int64, loops []loop.Stats,
	err error) {
	type counts struct {
		requests int64
		loop     loop.Stats
	}
	var s *server
	if err := r.call(func(of *server) { s = of }); err != nil {
		return 0, 0, nil, err
	}
	for _, l := range s.loops { // they do not change
		got := make(chan counts, 1)
		if l.Post(func() { got <- counts{s.conn.Requests(l), l.Stats()} }) != nil {
			return 0, 0, nil, ErrStopped
		}
		select {
		case c := <-got:
			requests += c.requests
			loops = append(loops, c.loop)
		case <-ctx.Done():
			return 0, 0, nil, context.Cause(ctx)
		case <-r.done:
			return 0, 0, nil, ErrStopped
		}
	}
	return s.conn.Active(), requests, loops, nil
}
