package server

import (
	"encoding/json"
	"os"
	"sync/atomic"
	"time"

	status "github.com/lwango/lwango/internal/base/metrics"
)

// drainReports are what processes that this one has replaced say of the connections that they
// still serve. The last one of them sends the reports, a line of JSON each second, with those that
// it gets itself. A nil drainReports has none.
type drainReports struct {
	from   *os.File // a pipe
	latest atomic.Pointer[[]status.Draining]
	ended  chan struct{} // closed when the goroutine has ended
}

// drainReports returns the reports for a new process; nil: the old one sends none.
func (h *handover) drainReports() *drainReports {
	if h == nil || h.reports == nil {
		return nil
	}
	return &drainReports{from: h.reports, ended: make(chan struct{})}
}

// begin begins to read.
func (d *drainReports) begin() {
	if d == nil {
		return
	}
	go func() {
		defer close(d.ended)
		defer d.latest.Store(nil) // the process has ended
		read := json.NewDecoder(d.from)
		for {
			var all []status.Draining
			if read.Decode(&all) != nil {
				return
			}
			d.latest.Store(&all)
		}
	}()
}

// end ends the reading.
func (d *drainReports) end() {
	if d != nil {
		_ = d.from.Close()
		<-d.ended
	}
}

// all returns the processes that drain. Any goroutine may call it.
func (d *drainReports) all() []status.Draining {
	if d != nil {
		if all := d.latest.Load(); all != nil {
			return *all
		}
	}
	return []status.Draining{}
}

// reportEvery is how many looks for connections (idleInterval) there are for one report.
const reportEvery = 10

// reportDrain tells the new process of the connections of this one. It does not wait for it.
func (s *server) reportDrain() {
	u := s.upgrade
	if u.looks++; u.looks%reportEvery != 1 {
		return
	}
	text, err := json.Marshal(append(s.drainReports.all(), status.Draining{PID: os.Getpid(),
		Since: u.since, Until: u.since.Add(s.config.Drain), Connections: s.openConnections()}))
	if err == nil {
		_ = u.reports.SetWriteDeadline(time.Now().Add(time.Millisecond))
		_, _ = u.reports.Write(append(text, '\n')) // the new process may have ended
	}
}
