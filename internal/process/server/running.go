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

// Start starts a server that stops at the end of ctx. When it returns, clients can connect. src
// says what the server has beside the program; routes of src stand in the place of what Handle and
// Use were given. The server calls end when it has stopped, or has not started.
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
	r := &Running{server: s, calls: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		defer end()
		r.err = s.untilStopped(ctx, new(signals), r.calls)
	}()
	return r, nil
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

// closeGiven closes the net.Listeners of src, but for those whose sockets s serves; s may be nil.
func closeGiven(src config.Source, s *server) {
	for _, l := range src.Code.Listeners {
		if l.Given == nil {
			continue
		}
		if s != nil {
			if old := s.listeners[sockets.GivenAddress(l.Given)]; old != nil &&
				sockets.Same(l.Given, old.config.Given) {
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

// Reload puts next, which is as for Start, into force, by the rules of a reload. It waits for the
// loops, and so it refuses to be called on one.
func (r *Running) Reload(p *Program, next config.Source) (err error) {
	if onLoop() {
		go func() { _ = r.call(func(s *server) { closeGiven(next, s) }) }()
		return errOnLoop
	}
	failed := r.call(func(s *server) {
		if s.stopping() {
			err = ErrStopped
		} else if err = s.keeps(next.Code); err == nil {
			before, config := s.source, s.config
			next.Logger, next.Chosen = before.Logger, s.chosenPorts()
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
			s.closeDoubles(next)
		}
	})
	if failed != nil {
		closeGiven(next, nil)
	}
	return errors.Join(failed, err)
}

// keeps returns an error if code asks for what a server that runs cannot change. A zero field asks
// for nothing.
func (s *server) keeps(code *config.Config) error {
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
	}
	return nil
}

// closeDoubles closes the net.Listeners of src whose sockets s has by other ones already.
func (s *server) closeDoubles(src config.Source) {
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

// Addrs returns the addresses that are listened to, in the order of the configuration, with the
// ports that the kernel has chosen; once the server has stopped, the last ones.
func (r *Running) Addrs() (all []string) {
	list := func(s *server) {
		for _, lc := range s.config.Listeners {
			all = append(all, s.listeners[lc.Address].socket.Shown)
		}
	}
	if r.call(list) != nil {
		list(r.server) // its goroutine has ended
	}
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
