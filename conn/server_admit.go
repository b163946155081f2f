package conn

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// Admission decides which connections may stay, and which ones the server closes to make room.
//
// At max_connections, or without a free descriptor, the server closes the connection that has been
// idle longest, on whichever loop it lives, and a newcomer takes its place. At the limit for an
// address that is one of the same address (server_evict.go). A newcomer is refused only if no
// connection is idle. Then a plain client gets 503, and the connection of a TLS client is closed: a
// handshake costs more than an overloaded server can spare.

const (
	maxRefusing = 128 // connections that linger behind a 503, beyond MaxConnections
	maxEvicting = 64  // connections that other loops still have to close
)

// admission is the part of a Server that counts connections. It is safe for any goroutine.
type admission struct {
	active   atomic.Int64 // open connections, without those that are refused
	refusing atomic.Int64
	evicting atomic.Int64 // of the active ones, those that other loops still have to close
	loops    atomic.Pointer[[]*loop.Loop]

	mu   sync.Mutex
	held networks.Counts // connections by where they come from; mu is held

	evictor evictor

	// Counted since the last line in the log.
	evicted, refused, ofNetwork atomic.Int64
	line                        logLimiter
}

// serves notes that l accepts connections.
func (a *admission) serves(l *loop.Loop) {
	for {
		old := a.loops.Load()
		var all []*loop.Loop
		if old != nil {
			all = *old
		}
		if slices.Contains(all, l) {
			return
		}
		next := append(slices.Clip(all), l)
		if a.loops.CompareAndSwap(old, &next) {
			return
		}
	}
}

// admit counts c, which l has accepted, and reports whether it may stay.
func (a *admission) admit(c *connection, l *loop.Loop, set *settings) bool {
	defer a.note(c.port.server, l, set)
	if !a.enter(c, l, set) {
		return false
	}
	limit := int64(set.MaxConnections)
	crowded := l.Layer().SpareInUse()
	budget.Connected(1)
	for n := a.active.Add(1); crowded ||
		limit > 0 && n-a.evicting.Load() > limit; n = a.active.Load() {
		if !a.makeRoom(l) {
			a.active.Add(-1)
			budget.Connected(-1)
			a.leave(c)
			a.refused.Add(1)
			return false
		}
		crowded = false
	}
	return true
}

// clientNetShare is how many times MaxConnectionsPerAddress the /64s of an IPv6 /48 may have
// together.
const clientNetShare = 16

// enter counts c, of the loop l, among those of its network, if there is a limit for these, and
// reports whether it may stay. A trusted proxy has no limit: its connections are those of many
// clients. At the limit an idle connection of the same network gives way.
func (a *admission) enter(c *connection, l *loop.Loop, set *settings) bool {
	limit := set.MaxConnectionsPerAddress
	if limit <= 0 || !c.remote.valid() || c.port.proxies(set).trusts(c.remote) {
		return true
	}
	most := clientNetShare * limit
	if set.MaxConnections > 0 {
		most = min(most, max(set.MaxConnections/2, limit))
	}
	client := c.remote.addrPort().Addr()
	for {
		free, own := a.count(c, client, int64(limit), int64(most))
		if free > 0 {
			return true
		}
		if !a.evictor.makeRoom(a, l, networks.Of(client), free == 0 && own > 0) {
			a.ofNetwork.Add(1)
			return false
		}
	}
}

// count counts c among the connections of its client, if there are fewer than limit, and fewer than
// most of its client network, and returns how many more there may be, and how many the client has.
// Below 0 there are too many. Those that other loops still have to close do not count.
func (a *admission) count(c *connection, client netip.Addr, limit, most int64) (free, own int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	network, clientNet := a.held.Of(client)
	owed := a.evictor.evicting[networks.Of(client)]
	if free = min(limit-network, most-clientNet) + owed; free > 0 {
		a.held.Add(client, 1)
		c.admission = counted
	}
	return free, network - owed
}

// leave undoes enter.
func (a *admission) leave(c *connection) {
	if c.admission != counted {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held.Add(c.remote.addrPort().Addr(), -1)
	c.admission = admitted
}

// recount counts c, which was a proxy's, among the connections of the client that it is of. The
// error means that it must end.
func (a *admission) recount(c *connection, set *settings) error {
	defer a.note(c.port.server, c.Loop(), set)
	if !a.enter(c, c.Loop(), set) { // as a trusted proxy's, it was not counted before
		return errOverload
	}
	return nil
}

// makeRoom closes the connection that has been idle longest, or asks its loop to close it, and
// reports whether there was one. It runs on the loop own.
func (a *admission) makeRoom(own *loop.Loop) bool {
	for {
		var best *loop.Loop
		var longest int64
		for _, l := range *a.loops.Load() {
			if since, ok := l.Layer().IdleSince(); ok && (best == nil || since < longest) {
				best, longest = l, since
			}
		}
		switch {
		case best == nil:
			return false
		case best == own:
			if own.Layer().EndIdle() {
				a.evicted.Add(1)
				return true
			}
			// None of own's connections was idle any more, and own has published that.
		case a.evictOn(best):
			return true
		case own.Layer().EndIdle(): // best is busy, or has ended
			a.evicted.Add(1)
			return true
		default:
			return false
		}
	}
}

// evictOn asks another loop to close an idle connection. If that loop has none by then, there is
// one connection too many, and the server closes two for the next newcomer.
func (a *admission) evictOn(l *loop.Loop) bool {
	if a.evicting.Add(1) > maxEvicting {
		a.evicting.Add(-1)
		return false
	}
	err := l.Post(func() {
		if l.Layer().EndIdle() {
			a.evicted.Add(1)
		}
		a.evicting.Add(-1)
	})
	if err != nil {
		a.evicting.Add(-1)
	}
	return err == nil
}

// remove counts c no more.
func (a *admission) remove(c *connection) {
	if c.admission == refused {
		a.refusing.Add(-1)
		return
	}
	a.leave(c)
	budget.Connected(-1)
	a.active.Add(-1) // the last: those who wait for it find all of it done
}

// note logs what became of connections beyond the limits, at most once a minute.
func (a *admission) note(s *Server, l *loop.Loop, set *settings) {
	if a.evicted.Load()+a.refused.Load()+a.ofNetwork.Load() == 0 || !a.line.now(l) {
		return
	}
	set.Logger.Warn("conn: too many connections, idle ones are closed, newcomers refused",
		"open", a.active.Load(), "max_connections", set.MaxConnections,
		"closed", s.said(refusedIdle, a.evicted.Swap(0)),
		"refused", s.said(refusedRoom, a.refused.Swap(0)),
		"beyond_max_connections_per_address", s.said(refusedAddress, a.ofNetwork.Swap(0)),
		"out_of_descriptors", l.Layer().SpareInUse())
}

// turnAway answers 503 on fd, for which there is no room. No turn serves c: it lingers, because a
// socket that is closed before the request arrives is reset then, and the reset may overtake the
// answer. Without room for that either, turnAway closes fd at once.
func (p *port) turnAway(fd int, c *connection, set *settings) {
	if p.TLS != nil {
		sysio.Close(fd)
		return
	}
	c.admission = refused
	crowded := p.server.admission.refusing.Add(1) > maxRefusing || p.loop.Layer().SpareInUse()
	p.refresh(set)
	body := appendErrorPage(nil, http.StatusServiceUnavailable)
	out := append(appendStatusLine(nil, http.StatusServiceUnavailable, ""), p.fields...)
	out = append(out, "Content-Type: text/html; charset=utf-8\r\n"...)
	out = append(out, "Connection: close\r\nContent-Length: "...)
	out = append(strconv.AppendInt(out, int64(len(body)), 10), "\r\n\r\n"...)
	_, _ = sysio.Send(fd, append(out, body...), false)
	_ = unix.Shutdown(fd, unix.SHUT_WR)
	if crowded || p.attach(c, fd, c.newLingering(p.loop.Time()), lingerSilence) != nil {
		_, _ = sysio.Recv(fd, out[:cap(out)]) // the request: unread, it would cause a reset at once
		sysio.Close(fd)
		c.Ended()
		return
	}
	c.KeepWaiting(true)
}

// Outdate ends the idle connections on l from before the Terms of their listeners changed. It is
// called on l. Answers that are under way are not disturbed, and are the last ones of their
// connections, whether Outdate is called or not. A request that comes by such a connection later is
// answered with 421 (RFC 9110 section 15.5.20). What a handler has taken over, such as a WebSocket,
// goes on.
func (s *Server) Outdate(l *loop.Loop) {
	var idle []*connection
	l.Layer().EachThread(true, func(t loop.ThreadState) {
		c := awaitsRequests(t.Task)
		if c != nil && t.State == "idle" && len(idle) < outdatedPerTurn && c.port.server == s &&
			c.outdated() && (c.tls != nil || c.port.TLS == nil) { // else the handshake is to come
			idle = append(idle, c)
		}
	})
	for _, c := range idle {
		c.Thread.Layer().Wake()
	}
	if len(idle) == outdatedPerTurn {
		_ = l.Post(func() { s.Outdate(l) }) // refused: all threads were killed
	}
}

// outdatedPerTurn bounds how much longer a turn takes because of Outdate, to some milliseconds.
const outdatedPerTurn = 256

// Ended is called by the loop when the thread has ended.
func (c *connection) Ended() {
	delete(c.port.untaken, c)
	c.port.server.admission.remove(c)
}
