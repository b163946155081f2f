package upstream

import "github.com/lwango/lwango/internal/base/metrics"

// Report describes the addresses of g, as the configuration names them: those of a DNS name
// together, but for the connections at those that have a state of their own, which follow. What was
// counted there is the name's, as it is when the name resolves to them no more: it does not fall.
// An address is up unless the checks, or the last requests that it had, say the opposite, and a
// name if one of its addresses is. A name whose addresses all have a state has that which leaves
// most to requests. Any goroutine may call it.
func (g *Group) Report() (all []metrics.Upstream) {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	g.sync()
	states := g.pool.states.of
	for _, sc := range g.configured {
		row := metrics.Upstream{Address: sc.name, Backup: sc.level > 0, State: states[sc.name].shown()}
		if sc.dnsName != nil {
			row.Up = sc.dnsName.version == 0 && sc.dnsName.err == nil // nobody has asked for it yet
			c := sc.dnsName.counted[sc.key.configured()]
			c.add(&row)
		}
		found, least := false, down
		for _, srv := range g.all {
			if srv.serverConfig != sc {
				continue
			}
			found, least = true, min(least, g.pool.states.state(srv))
			srv.counted.add(&row)
			if sc.dnsName != nil && states[srv.address] != up {
				row.Up = row.Up || srv.healthy()
				continue
			}
			srv.show(&row)
		}
		if found {
			row.State = least.shown()
		}
		all = append(all, row)
	}
	if len(states) == 0 {
		return all
	}
	own := make(map[string]int) // rows by address: several names may resolve to one
	for i := range all {
		own[all[i].Address] = i
	}
	for _, srv := range g.all {
		if srv.serverConfig.dnsName == nil || states[srv.address] == up {
			continue
		}
		i, is := own[srv.address]
		if !is {
			i = len(all)
			own[srv.address] = i
			all = append(all, metrics.Upstream{Address: srv.address, Backup: srv.level > 0,
				State: g.pool.states.state(srv).shown()})
			new(counted).add(&all[i]) // it has counts as all rows have, of nothing
		}
		srv.show(&all[i])
	}
	return all
}

// show adds to a row what goes on at the server.
func (srv *server) show(row *metrics.Upstream) {
	row.Up = row.Up || srv.healthy()
	row.Active += srv.active
	row.Idle += srv.idleCount()
	row.Waiting = max(row.Waiting, srv.backend.waiting.len())
}

// healthy reports whether nothing speaks against the server.
func (srv *server) healthy() bool {
	return !srv.out() && srv.avoid.IsZero() && srv.circuit.until.IsZero()
}
