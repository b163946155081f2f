package server

import (
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/confpath"
	"github.com/lwango/lwango/internal/sysio"
	"golang.org/x/sys/unix"
)

// descriptorLimit is RLIMIT_NOFILE. The Go runtime has raised the soft limit to the hard one at its
// start.
func descriptorLimit() int {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 1024 // what every system allows
	}
	return int(min(lim.Cur, 1<<30))
}

// perConnection is how many descriptors a connection may hold: its own, that of a file which it
// downloads or which holds its request's body, and a connection to an upstream.
const perConnection = 3

// connectionsFor returns how many connections the descriptors suffice for, beside the server's own.
// An idle connection holds a third of its part; but the clients choose how many of them work at
// once.
func connectionsFor(descriptors, own int) int {
	return max((descriptors-own)/perConnection, descriptors/8, 1)
}

// perAddress returns how many connections an address may have, 0 for any number, as it is
// configured, beside so many of all addresses. By default no address can have all of them, and a
// household, or an office behind one address, does not come near.
func perAddress(configured, all int) int {
	switch {
	case configured < 0:
		return 0
	case configured > 0:
		return configured
	}
	return max(all/4, 8)
}

// ownDescriptors is about how many descriptors the server itself holds: for each loop those of
// epoll, of its eventfd and the spare one; each listener's sockets and their duplicates; standard
// streams, logs, a broker, Go's own poller, and what a reload opens beside all that.
func ownDescriptors(loops, listeners int) int { return 32 + loops*(3+3*listeners) }

// showPerAddress lets -T show what an address has by default, unless that depends on the descriptors.
func (c *config) showPerAddress() {
	if c.MaxConnections > 0 && c.MaxPerAddress == 0 {
		c.MaxPerAddress = perAddress(0, c.MaxConnections)
		c.Table.Assume("max_connections_per_address", c.MaxPerAddress)
	}
}

// leastSpool is the least that max_spool is by default.
const leastSpool = 4 << 30

// checkSpool checks that files can be made in spool_dir, and that max_spool has room for a body.
func (c *config) checkSpool() {
	largest := max(c.MaxBodySize, handlers.Size(c.largestBody))
	switch {
	case !c.Table.Has("max_spool"):
		c.MaxSpool = max(leastSpool, 4*largest)
		c.Table.Assume("max_spool", c.MaxSpool)
	case c.MaxSpool > 0 && c.MaxSpool < largest:
		c.Table.Errorf("max_spool",
			"must be at least max_body_size, which is %v, or 0, for no limit; found %v",
			largest, c.MaxSpool)
	}
	if c.SpoolDir == "" {
		return
	}
	c.SpoolDir = confpath.Join(c.Dir, c.SpoolDir)
	if err := sysio.CheckTempDir(c.SpoolDir); err != nil {
		c.Table.Errorf("spool_dir", "%v", err)
	}
}
