package server

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/sockets"
	"github.com/lwango/lwango/loop"
)

// ErrStopped is the error of a call that needs a server that runs.
var ErrStopped = errors.New("the server has stopped")

// Running is a server that Program.Start has started. Its methods are for any goroutine.
type Running struct {
	server *server // its goroutine's
	calls  chan func()
	done   chan struct{}
	err    error // once done is closed
}

// Start starts a server that stops at the end of ctx. When it returns, clients can connect. src has
// what the server needs besides the program; routes of src replace those of Handle, and the layers
// of Use. The server calls end when it has stopped, or could not start.
func (p *Program) Start(ctx context.Context, src config.Source,
	end func()) (_ *Running, err error) {
	defer func() {
		if err != nil {
			closeGiven(src, nil)
			end()
		}
	}()
	p.complete(&src)
	c, err := src.Load()
	if err != nil {
		return nil, err
	}
	s, err := start(src, c, nil)
	if err != nil {
		return nil, err
	}
	if f, ok := ctx.Value(loopsKey{}).(func([]*loop.Loop)); ok {
		f(s.loops)
	}
	r := &Running{server: s, calls: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		defer end()
		r.err = s.untilStopped(ctx, new(signals), r.calls)
	}()
	return r, nil
}

// loopsKey is the key of the function of WithLoops.
type loopsKey struct{}

// WithLoops returns a context for which Start calls f with the loops of the server. It is for tests
// that put the clocks of the loops forward.
func WithLoops(ctx context.Context, f func([]*loop.Loop)) context.Context {
	return context.WithValue(ctx, loopsKey{}, f)
}

// chosenPorts returns the addresses whose port the kernel has chosen, by host and port.
func (s *server) chosenPorts() map[string]sockets.Address {
	open := map[string]sockets.Address{}
	for a, l := range s.listeners {
		if a.Port() == 0 {
			open[l.socket.Display] = a
		}
	}
	return open
}

// closeGiven closes the net.Listeners of src, except those whose sockets s serves. s may be nil.
func closeGiven(src config.Source, s *server) {
	for _, l := range src.Code.Listeners {
		if l.Given == nil {
			continue
		}
		if s != nil {
			if old := s.listeners[sockets.GivenAddress(l.Given)]; old != nil &&
				sockets.Same(l.Given, old.listening.given) {
				continue
			}
		}
		_ = l.Given.Close() // it may be closed
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

// Reload puts next, a Source as for Start, into force by the rules of a reload. It waits for the
// loops, so it must not be called on one, and returns an error there.
func (r *Running) Reload(p *Program, next config.Source) (err error) {
	if onLoop() {
		go func() { _ = r.call(func(s *server) { closeGiven(next, s) }) }()
		return errOnLoop
	}
	failed := r.call(func(s *server) {
		if s.stopping() {
			err = ErrStopped
		} else if err = s.checkUnchanged(next.Code); err == nil {
			before, config := s.source, s.config
			next.Logger, next.ChosenPorts = before.Logger, s.chosenPorts()
			next.Limits = before.Limits
			p.complete(&next)
			s.source = next
			if err = s.reload(); err != nil {
				s.source = before
			}
			s.logReload(config, err)
		}
		if err != nil {
			closeGiven(next, s)
		} else {
			s.closeDuplicates(next)
		}
	})
	if failed != nil {
		closeGiven(next, nil)
	}
	return errors.Join(failed, err)
}

// checkUnchanged returns an error if code asks for a change that a running server cannot make. A
// zero field asks for nothing.
func (s *server) checkUnchanged(code *config.Config) error {
	changes := func(name string, has, wants any) error {
		return fmt.Errorf("%s: cannot change from %v to %v while the server runs", name, has, wants)
	}
	switch c := s.config; {
	case code.Threads != 0 && code.Threads != c.Threads && code.Threads != len(s.loops):
		return changes("Threads", len(s.loops), code.Threads)
	case code.Workers != 0 && code.Workers != c.Workers:
		return changes("Workers", c.Workers, code.Workers)
	case code.Handoff != "" && code.Handoff != c.Handoff:
		return changes("Handoff", c.Handoff, code.Handoff)
	case code.Pubsub.URL != "" && code.Pubsub.URL != c.Pubsub.URL: // there may be a password in it
		return errors.New("PubsubURL: cannot change while the server runs")
	}
	return nil
}

// closeDuplicates closes the net.Listeners of src whose sockets s already has by other
// net.Listeners.
func (s *server) closeDuplicates(src config.Source) {
	for _, l := range src.Code.Listeners {
		if l.Given == nil {
			continue
		}
		if has := s.listeners[sockets.GivenAddress(l.Given)]; has == nil || has.socket.Given == l.Given {
			continue
		}
		if u, ok := l.Given.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(false)
		}
		_ = l.Given.Close() // it may be closed
	}
}

// Addrs returns the addresses at which the server listens, or has listened before it stopped, in
// the order of the configuration and with the ports that the kernel has chosen.
func (r *Running) Addrs() (all []string) {
	list := func(s *server) {
		for _, lc := range s.config.Listeners {
			all = append(all, s.listeners[lc.Address].socket.Display)
		}
	}
	if r.call(list) != nil {
		list(r.server) // its goroutine has ended
	}
	return all
}

// Counts returns the number of open connections, and the counts of each loop, of itself and of its
// requests. It waits until ctx ends for a loop that a handler blocks.
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
	for _, l := range s.loops { // s.loops does not change
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
