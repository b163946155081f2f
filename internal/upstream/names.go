package upstream

import (
	"net/netip"
	"time"

	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// nameFor is for how long the address to which a host's name has led is used again.
const nameFor = 5 * time.Second

// found is the address to which a name led last. The pool's lock guards it.
type found struct {
	address string // empty: none yet
	until   time.Time
}

// named reports whether an endpoint has to be looked up.
func (e endpoint) named() bool {
	if e.network != "tcp" {
		return false
	}
	_, err := netip.ParseAddrPort(e.address)
	return err != nil
}

// known returns the address that was found last, and whether it is current. When its time is over,
// one of the requests that ask looks the name up, and the others go on with the old address. So a
// slow name service has one question to answer at a time.
func (p *peer) known() (address string, current bool) {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	now := time.Now()
	if p.found.until.After(now) {
		return p.found.address, p.found.address != ""
	}
	if p.found.address != "" {
		p.found.until = now.Add(nameFor)
	}
	return p.found.address, false
}

func (p *peer) learn(address string) {
	p.pool.mu.Lock()
	p.found = found{address, time.Now().Add(nameFor)}
	p.pool.mu.Unlock()
}

// dialName connects to a host by its name. A look-up takes one of the loop's workers, and most
// often a question to another machine. So an address that is current is tried first, and the name
// after it. An old address is tried last: when no name service answers, the host may still be
// there. Each way has half of the time.
func (p *peer) dialName(t *loop.Thread, limit time.Duration) (*stream.Stream, error) {
	first, second, current := p.address, "", false
	if second, current = p.known(); current {
		first, second = second, first
	}
	if second != "" {
		limit /= 2
	}
	s, err := p.dialHost(t, first, limit)
	if err == nil || second == "" || left(err) || sysio.Exhausted(err) {
		return s, err
	}
	return p.dialHost(t, second, limit)
}

func (p *peer) dialHost(
	t *loop.Thread, address string, limit time.Duration,
) (*stream.Stream, error) {
	s, err := stream.Dial(t, p.network, address, limit)
	if err == nil && address == p.address {
		p.learn(s.RemoteAddr().String())
	}
	return s, err
}
