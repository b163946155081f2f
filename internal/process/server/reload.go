package server

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/sockets"
)

// rollback has the functions that undo the effects of a reload, in the order of the effects.
type rollback []func()

// add adds a function that undoes an effect.
func (w *rollback) add(undo func()) { *w = append(*w, undo) }

// run undoes all effects, the last one first.
func (w rollback) run() {
	for _, undo := range slices.Backward(w) {
		undo()
	}
}

// reload reads the configuration again and puts it in force: the new sites, limits and log apply
// from the next request on any connection. It is all or nothing. First it does all that can fail
// (reading, building the handlers, opening files and sockets), and only then it exchanges anything.
// After an error it undoes effects that others could see, and the server goes on as it was.
func (s *server) reload() (err error) {
	var undo rollback
	defer func() {
		if err != nil {
			undo.run()
		}
	}()
	source := s.source
	source.InForce = s.config.Certs()
	next, err := source.Load()
	if err != nil {
		return err
	}
	if err := s.sandbox.checkFiles(next); err != nil {
		return err
	}
	next.Certs().Keep(s.config.Certs(), s.own)
	unmake, err := next.MakeFolders()
	if err != nil {
		return err
	}
	undo.add(unmake)
	sinks, err := s.access.Open(next.AccessLogs())
	if err != nil {
		return err
	}
	undo.add(sinks.Close)
	own, err := s.openErrorLog(next)
	if err != nil {
		return err
	}
	undo.add(own.discard)
	debug, err := s.debugFor(next)
	if err != nil {
		return err
	}
	if debug != s.debug {
		undo.add(debug.close)
	}
	added, err := s.openAdded(next, &undo)
	if err != nil {
		return err
	}
	if err := s.setAccess(next, &undo); err != nil {
		return err
	}

	if debug != s.debug {
		s.debug.close()
		s.debug = debug
	}
	s.debug.setAllowsChanges(next)
	next.Loops = s.loops
	s.notePorts(next, added)
	s.restartNeeded(next)
	s.access.Use(next.AccessLogs(), sinks)
	own.use()
	outdated := s.applyStricterTLS(next)
	next.OpenCache(s.config) // if the disk hangs, the present configuration stays in force
	s.config.End()
	s.config = next
	s.debug.start()
	s.observe(next)
	s.conn.Configure(s.connConfig())
	s.access.Retire(next.AccessLogs(), next.AccessLog)
	next.Begin()
	s.observed.record(next)
	s.obtainer.Obtain(next.ACME())
	s.limitTopics()
	s.watchdog.SetLimit(next.Watchdog)
	s.swapListeners(next, added)
	if outdated {
		s.onLoops(func(i int) { s.conn.Outdate(s.loops[i]) })
	}
	s.notice()
	return nil
}

// openAdded makes the listeners of next that are not running yet. A listener that changes to or
// from TLS or HTTP/2 is added with duplicates of its sockets, so that the address stays open all
// the time.
func (s *server) openAdded(
	next *config.Config, undo *rollback,
) (map[sockets.Address]*listener, error) {
	added := map[sockets.Address]*listener{}
	for _, lc := range next.Listeners {
		old := s.listeners[lc.Address]
		if old != nil && lc.Given != nil && !sockets.Same(lc.Given, old.listening.given) {
			return nil, lc.Table.Wrong("address", fmt.Errorf("listen %s: another socket of that address is "+
				"served already", old.socket.Display))
		}
		var l *listener
		var err error
		switch {
		case old == nil:
			l, err = s.open(lc)
		case (old.TLS == nil) != (lc.TLS.Config == nil), old.HTTP2 != lc.HTTP2,
			old.listening.streams != nil, lc.Streams != nil, old.listening.stream != nil,
			lc.Stream != nil:
			l, err = s.reuse(old, lc)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		added[lc.Address] = l
		undo.add(func() {
			if old == nil {
				l.socket.Remove()
			}
			l.discard()
		})
	}
	return added, nil
}

// setAccess gives open sockets the mode and the owner that next has for them.
func (s *server) setAccess(next *config.Config, undo *rollback) error {
	for _, lc := range next.Listeners {
		if old := s.listeners[lc.Address]; old != nil {
			back, err := old.socket.SetAccess(&lc.Endpoint)
			if err != nil {
				return lc.Table.Wrong("address", err)
			}
			undo.add(back)
		}
	}
	return nil
}

// reuse makes a listener on the sockets of old.
func (s *server) reuse(old *listener, lc config.Listener) (*listener, error) {
	sock, err := old.socket.Duplicate()
	if err != nil {
		return nil, err
	}
	l, err := newListener(sock, lc, len(s.loops), s.obtainer)
	if err == nil {
		l.Terms = old.Terms
	}
	return l, err
}

// applyStricterTLS puts the TLS of listeners that ask for more than before into force. It comes
// before the rest of next, so that no client gets anything of next without what next asks for. It
// reports whether there are such listeners; then the caller calls conn.Server.Outdate.
func (s *server) applyStricterTLS(next *config.Config) (any bool) {
	for i := range next.Listeners {
		lc := &next.Listeners[i]
		l := s.listeners[lc.Address]
		at := slices.IndexFunc(s.config.Listeners, func(old config.Listener) bool {
			return old.Address == lc.Address
		})
		if l == nil || at < 0 || !lc.TLS.Stricter(&s.config.Listeners[at].TLS) {
			continue
		}
		l.certs.Store(lc.TLS.Offer())
		s.outdate(l)
		any = true
	}
	return any
}

// outdate marks the present connections of a listener as outdated: they were agreed on under weaker
// terms. Then conn.Server.Outdate has to be called.
func (s *server) outdate(l *listener) {
	l.Terms.Add(1)
	s.own.Info("a listener asks for more than before, its connections end with the answers that "+
		"are under way", "address", l.socket.Display)
}

// swapListeners starts the added listeners and closes those that next does not have. Connections in
// the queue of a closed one are still accepted.
func (s *server) swapListeners(next *config.Config, added map[sockets.Address]*listener) {
	keep := map[sockets.Address]bool{}
	for _, lc := range next.Listeners {
		keep[lc.Address] = true
	}
	var closing, gone []*listener
	for addr, l := range s.listeners {
		if keep[addr] && added[addr] == nil {
			continue
		}
		closing = append(closing, l)
		if !keep[addr] {
			l.socket.Remove()
			delete(s.listeners, addr)
			gone = append(gone, l)
		}
	}
	var fresh []*listener
	for _, lc := range next.Listeners {
		l, old := added[lc.Address], s.listeners[lc.Address]
		if l != nil && (old == nil || !l.like(old)) {
			fresh = append(fresh, l)
		}
	}
	for addr, l := range added {
		s.listeners[addr] = l
	}
	for _, lc := range next.Listeners {
		if l := s.listeners[lc.Address]; added[lc.Address] == nil {
			l.certs.Store(lc.TLS.Offer())
		}
	}
	for _, l := range closing {
		l.socket.Close()
	}
	s.onLoops(func(i int) {
		// New listeners come first: a loop without any listener or connection would end.
		for _, l := range added {
			if err := s.serve(l, i); err != nil {
				s.own.Error("reload: an address is not served by one of the loops", "error", err)
			}
		}
		for _, l := range closing {
			for _, h := range l.handles[i] {
				h.Close()
			}
		}
	})
	// Close takes effect within a turn of the loop. After another turn, the log tells the truth.
	s.onLoops(func(int) {})
	for _, l := range gone {
		s.own.Info("no longer listening", "address", l.socket.Display)
	}
	for _, l := range fresh {
		s.announce(l)
	}
}

// restartNeeded logs what a reload cannot change.
func (s *server) restartNeeded(next *config.Config) {
	for _, key := range []struct {
		name                string
		running, configured any
	}{
		{"threads", s.config.Threads, next.Threads},
		{"workers", s.config.Workers, next.Workers},
		{"handoff", s.config.Handoff, next.Handoff},
		{"pid_file", s.config.PIDFile, next.PIDFile},
	} {
		if key.running != key.configured {
			s.own.Warn(key.name+" changes at the next start only", "running", key.running,
				"configured", key.configured)
		}
	}
	if !next.Confine.Same(s.config.Confine) {
		s.own.Warn("[confine] changes at the next start only")
	}
	if next.Pubsub.URL != s.config.Pubsub.URL { // neither is shown: there may be a password in it
		s.own.Warn("pubsub.url changes at the next start only")
	}
	// The next reload must compare with what is running.
	next.Threads, next.Workers, next.Handoff = s.config.Threads, s.config.Workers, s.config.Handoff
	next.Confine = s.config.Confine
	next.Pubsub.URL, next.PIDFile = s.config.Pubsub.URL, s.config.PIDFile
}

// differences returns the keys that were added, removed and changed since the configuration before,
// as attributes for the log.
func differences(before, c *config.Config) (attrs []any) {
	added, removed, changed := settings.Changes(before.Table, c.Table,
		map[string]string{"listener": "address", "stream": "address", "site": "host",
			"upstream": "name"})
	for _, list := range []struct {
		name  string
		names []string
	}{{"added", added}, {"removed", removed}, {"changed", changed}} {
		if len(list.names) > 0 {
			attrs = append(attrs, list.name, abridged(list.names))
		}
	}
	if attrs == nil {
		return []any{"changed", "nothing in the file"}
	}
	return attrs
}

// abridged joins names, of which it cuts long ones and leaves out all but a few.
func abridged(names []string) string {
	const most, longest = 10, 80
	var b strings.Builder
	for i, name := range names {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(names)-most)
			break
		}
		if len(name) > longest {
			name = strings.ToValidUTF8(name[:longest], "") + "..."
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name)
	}
	return b.String()
}

// loopWait is how long a reload waits for a loop that a handler blocks.
const loopWait = 2 * time.Second

// onLoops calls f on each loop, with its index, and waits until that is done.
func (s *server) onLoops(f func(i int)) {
	var called sync.WaitGroup
	for i, l := range s.loops {
		called.Add(1)
		if l.Post(func() { f(i); called.Done() }) != nil {
			called.Done() // the loop has ended, and untilStopped acts on that
		}
	}
	all := make(chan struct{})
	go func() {
		called.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(loopWait):
		s.own.Warn("a loop is held up by a handler and will follow later")
	}
}
