package upstream

import (
	"time"

	"github.com/lwango/lwango/internal/metrics"
)

// Report describes the addresses of g. Any goroutine may call it.
func (g *Group) Report() (all []metrics.Upstream) {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	now := time.Now()
	for _, m := range g.members {
		all = append(all, metrics.Upstream{
			Address: m.name, Backup: m.backup, Up: !m.out() && m.works(now),
			Active: m.active, Idle: len(m.idle), Waiting: m.waiting.tickets.Len(),
		})
	}
	return all
}
