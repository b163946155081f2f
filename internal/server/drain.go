package server

import (
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lwango/lwango/loop"
)

// idleEvery is how often a process that was replaced looks whether it is needed any more.
const idleEvery = 100 * time.Millisecond

// handOver leaves everything to the new process, which serves already.
func (s *server) handOver(m message) {
	u := s.upgrade
	u.state = draining
	pid := u.process.Pid
	u.manager, s.manager = s.manager, nil
	u.manager.replaced(pid)
	if u.pidFile = m.PIDFile; u.pidFile {
		if err := s.pid.write(pid); err != nil {
			s.own.Error("the number of the new process cannot be written", "error", err)
		}
	}
	cc := s.connConfig()
	cc.Leaving = true
	s.conn.Configure(cc)
	s.leaveListeners(m)
	s.debug.leave()
	s.obtainer.leave()

	u.limit.Stop()
	u.limit = time.AfterFunc(s.config.Drain, func() { u.tell(event{expired: true}) })
	go func() {
		tick := time.NewTicker(idleEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				u.tell(event{look: true})
			case <-u.done:
				return
			}
		}
	}()
	s.own.Info("replaced by a new process", "pid", pid, "drain", s.config.Drain,
		"connections", s.conn.Active())
	s.reportUpgrade("ok: process %d has taken the place of process %d", pid, os.Getpid())
	if u.reload {
		_ = u.process.Signal(syscall.SIGHUP) // what it has read may be older than the signal
	}
}

// leaveListeners ends the accepting. What waits in the queues is accepted by this process or by the
// new one, which has the same sockets. Those that the new one does not serve are closed. This
// process keeps the others open: see takeBack.
func (s *server) leaveListeners(m message) {
	var all []*listener
	for a, l := range s.listeners {
		all = append(all, l)
		if !slices.Contains(m.Serves, a.String()) {
			l.socket.Remove()
			l.socket.Close()
			delete(s.listeners, a)
			s.own.Info("no longer listening", "address", l.socket.Shown)
		}
	}
	first := !s.kept
	s.kept = true
	s.onLoops(func(i int) {
		if first { // without this, a loop would end with its last connection, for ever
			s.loops[i].Go(func(t *loop.Thread) { _, _ = t.AwaitAny(-1, t.Loop().Stopped()) })
		}
		for _, l := range all {
			for _, h := range l.handles[i] {
				h.Close()
			}
			l.handles[i] = nil
		}
	})
	s.onLoops(func(int) {}) // as in exchange: after another turn, what is announced is true
}

// retain closes the sockets of all addresses but those that the new process still serves. Otherwise
// clients could connect to them, and nobody would answer.
func (s *server) retain(serves []string) {
	for a, l := range s.listeners {
		if !slices.Contains(serves, a.String()) {
			l.socket.Close()
			delete(s.listeners, a)
		}
	}
}

// lookIdle reports the event idle if no loop has a thread beside the one that keeps it running.
func (s *server) lookIdle() {
	u := s.upgrade
	var left atomic.Int32
	var busy atomic.Bool
	left.Store(int32(len(s.loops)))
	for _, l := range s.loops {
		_ = l.Post(func() { // a loop that has ended is an event of its own
			if l.Threads() > 1 {
				busy.Store(true)
			}
			if left.Add(-1) == 0 && !busy.Load() {
				go u.tell(event{idle: true})
			}
		})
	}
}

// takeBack accepts again, since the new process has ended in disorder, or is about to. The sockets
// are still there, and so are the clients that have connected meanwhile.
func (s *server) takeBack(how string) {
	u := s.upgrade
	u.end()
	u.state = failed
	s.manager = u.manager
	s.manager.replaced(os.Getpid())
	if err := s.pid.write(os.Getpid()); err != nil {
		s.own.Error("the number of the process cannot be written", "error", err)
	}
	s.conn.Configure(s.connConfig())
	for a, old := range s.listeners {
		lc := old.config
		if old.certs != nil {
			lc.TLS = old.certs.Load()
		}
		l, err := s.reuse(old, lc)
		if err != nil {
			s.own.Error("an address is not served any more", "address", old.socket.Shown,
				"error", err)
			delete(s.listeners, a)
		} else {
			s.listeners[a] = l
		}
		old.socket.Close()
	}
	all := slices.Collect(maps.Values(s.listeners))
	s.onLoops(func(i int) {
		for _, l := range all {
			if err := s.serve(l, i); err != nil {
				s.own.Error("an address is not served by one of the loops", "error", err)
			}
		}
	})
	s.obtain()
	s.failedUpgrade(how)
	s.renewDebug()
}
