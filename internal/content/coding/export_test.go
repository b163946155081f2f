package coding

// CacheBytes returns how many bytes c counts, and checks that against what it has.
func CacheBytes(c *Cache) (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Front(); e != nil; e = e.Next() {
		e := e.Value.(*entry)
		body, _ := e.body.Value()
		if c.entries[e.key] == e {
			n += int64(len(body)+len(e.key.Name)) + entryCost
		}
	}
	if n != c.bytes || len(c.entries) != c.order.Len() {
		return -1
	}
	return n
}

// Cost is as what an encoder is counted, in bytes.
func Cost(c Coding, level int) int64 { return costs[c][level] << 10 }
