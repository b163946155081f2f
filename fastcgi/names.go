package fastcgi

import (
	"net/netip"
	"time"

	"github.com/lwango/lwango/stream"
)

// nameFor is how long the address to which a host's name has led is used again.
const nameFor = 5 * time.Second

// found is the address to which a name has led last. It is guarded by the pool's lock.
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

// known returns the address that was found last, and whether it will do. Of those who ask when its time is over, one is
// told to look; the others go on with it, so that a name service that is slow has one question to answer at a time.
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

// dialName connects to a host by its name. To look that up takes one of the loop's workers, and most often a question to
// another machine. An address that is known is tried first, or last where it is not current: what it was for so long,
// it may still be when nobody answers that question. Each way has half of the time.
func (c *call) dialName(limit time.Duration) (*stream.Stream, error) {
	first, second, current := c.at.address, "", false
	if second, current = c.at.known(); current {
		first, second = second, first
	}
	if second != "" {
		limit /= 2
	}
	s, err := c.dialHost(first, limit)
	if err == nil || second == "" || left(err) || exhausted(err) {
		return s, err
	}
	return c.dialHost(second, limit)
}

func (c *call) dialHost(address string, limit time.Duration) (*stream.Stream, error) {
	s, err := stream.Dial(c.req.Thread, c.at.network, address, limit)
	if err == nil && address == c.at.address {
		c.at.learn(s.RemoteAddr().String())
	}
	return s, err
}
