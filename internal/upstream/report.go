package upstream

import "github.com/lwango/lwango/internal/base/metrics"

// Report describes the addresses of g by their names in the configuration. The addresses of a DNS
// name have one row together, except those with a state of their own, whose connections have rows
// of their own after it. Their counts belong to the name, also when it no longer resolves to them,
// so counts do not fall. An address is up unless its checks or its last requests failed, and a name
// is up if one of its addresses is. If all addresses of a name have a state, the name has the least
// restrictive one. Any goroutine may call it.
func (g *Group) Report() (all []metrics.Upstream) {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	g.sync()
	states := g.pool.states.of
	for _, sc := range g.configured {
		row := metrics.Upstream{Address: sc.name, Backup: sc.level > 0, State: states[sc.name].shown()}
		if sc.dnsName != nil {
			row.Up = sc.dnsName.version == 0 && sc.dnsName.err == nil // it was not looked up yet
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
			new(counted).add(&all[i]) // a row has counts, of 0
		}
		srv.show(&all[i])
	}
	return all
}

// show adds the present state of the server to a row.
func (srv *server) show(row *metrics.Upstream) {
	row.Up = row.Up || srv.healthy()
	row.Active += srv.active
	row.Idle += srv.idleCount()
	row.Waiting = max(row.Waiting, srv.backend.waiting.len())
}

// healthy reports whether neither checks nor requests speak against the server.
func (srv *server) healthy() bool {
	return !srv.failsChecks() && srv.avoidUntil.IsZero() && srv.circuit.until.IsZero()
}
