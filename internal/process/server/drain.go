package server

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lwango/lwango/loop"
)

// idleInterval is how often a process that was replaced checks whether it is still needed.
const idleInterval = 100 * time.Millisecond

// handOver leaves all further work to the new process, which serves already.
func (s *server) handOver(m message) {
	u := s.upgrade
	u.state, u.since = draining, time.Now()
	pid := u.process.Pid
	s.manager.replaced(pid,
		fmt.Sprintf("process %d has taken the place of process %d, which drains", pid, os.Getpid()))
	s.manager = nil
	if u.pidFile = m.PIDFile; u.pidFile {
		if err := s.pid.write(pid); err != nil {
			s.own.Error("the number of the new process cannot be written", "error", err)
		}
	}
	cc := s.connConfig()
	cc.Leaving = true
	s.conn.Configure(cc)
	s.leaveListeners(m)
	s.debug.stopListening(m.Serves)
	s.obtainer.Leave()
	s.config.CloseCache() // the new process waits for the folder

	u.limit.Stop()
	u.limit = time.AfterFunc(s.config.Drain, func() { u.send(event{expired: true}) })
	go func() {
		tick := time.NewTicker(idleInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				u.send(event{checkIdle: true})
			case <-u.done:
				return
			}
		}
	}()
	s.own.Info("replaced by a new process", "pid", pid, "drain", s.config.Drain,
		"connections", s.openConnections())
	s.reportUpgrade("ok: process %d has taken the place of process %d", pid, os.Getpid())
	if u.reload {
		_ = u.process.Signal(syscall.SIGHUP) // it may have read the configuration before the signal
	}
}

// leaveListeners stops accepting. This process or the new one, which has the same sockets, accepts
// the connections that wait in the queues. The files of sockets that the new one does not serve are
// removed.
func (s *server) leaveListeners(m message) {
	all := slices.Collect(maps.Values(s.listeners))
	for a, l := range s.listeners {
		if !slices.Contains(m.Serves, a.String()) {
			l.socket.Remove()
			s.own.Info("no longer listening", "address", l.socket.Display)
		}
		l.socket.Close()
	}
	clear(s.listeners)
	s.onLoops(func(i int) {
		// Without this, a loop would end with its last connection.
		s.loops[i].Go(func(t *loop.Thread) {
			t.Layer().MarkDaemon()
			_, _ = t.AwaitAny(-1, t.Loop().Stopped())
		})
		for _, l := range all {
			for _, h := range l.handles[i] {
				h.Close()
			}
			l.handles[i] = nil
		}
	})
	s.onLoops(func(int) {}) // as in swapListeners, so that the log tells the truth
}

// checkIdle reports the event idle if no loop has a thread with work of its own.
func (s *server) checkIdle() {
	u := s.upgrade
	s.reportDrain()
	var busy atomic.Bool
	s.afterTurn(func(l *loop.Loop) {
		if l.Threads() > 0 {
			busy.Store(true)
		}
	}, func() {
		if !busy.Load() {
			u.send(event{idle: true})
		}
	})
}
