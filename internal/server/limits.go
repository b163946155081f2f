package server

import (
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/sysio"
)

// ownDescriptors is about how many descriptors the server itself holds: for each loop those of
// epoll, of its eventfd and the spare one; each listener's sockets and their duplicates; standard
// streams, logs, a broker, Go's own poller, and what a reload opens beside all that.
func ownDescriptors(loops, listeners int) int { return 32 + loops*(3+3*listeners) }

// checkSpool checks that files can be made in spool_dir, and that max_spool has room for a body. It
// lets -T show what limits are by default that depend on others, unless that depends on the
// descriptors.
func (c *config) checkSpool() {
	largest := max(c.MaxBodySize, conn.Size(c.largestBody))
	if c.MaxSpool > 0 && c.MaxSpool < largest {
		c.Table.Errorf("max_spool",
			"must be at least max_body_size, which is %v, or -1, for no limit; found %v",
			largest, c.MaxSpool)
	}
	full := c.Limits.Complete(c.largestBody, 0)
	c.Table.Assume("max_spool", full.MaxSpool)
	if c.MaxConnections > 0 {
		c.Table.Assume("max_connections_per_address", full.MaxConnectionsPerAddress)
	}
	if c.SpoolDir != "" {
		if err := sysio.CheckTempDir(c.SpoolDir); err != nil {
			c.Table.Errorf("spool_dir", "%v", err)
		}
	}
}
