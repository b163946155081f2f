package upstream

import "github.com/lwango/lwango/internal/metrics"

// Report describes the addresses of g, as the configuration names them: those of a host together.
// An address is up unless the checks, or the last requests that it had, say the opposite, and a host
// if one of its addresses is. Any goroutine may call it.
func (g *Group) Report() (all []metrics.Upstream) {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	g.sync()
	for _, p := range g.parts {
		row := metrics.Upstream{Address: p.name, Backup: p.backup}
		row.Up = p.host != nil && p.host.version == 0 && p.host.err == nil // nobody has asked for it yet
		if s := g.pool.states.of[p.name]; s != up {
			row.State = metrics.UpstreamStates[s]
		}
		for _, m := range g.all {
			if m.part == p {
				row.Up = row.Up || !m.out() && m.avoid.IsZero() && m.circuit.until.IsZero()
				row.Active += m.active
				m.counted.add(&row)
				row.Idle += len(m.idle)
				row.Waiting = max(row.Waiting, m.peer.waiting.len())
			}
		}
		all = append(all, row)
	}
	return all
}
