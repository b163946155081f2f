package cachestore

// bounds are the limit of memory or of a disk, and what counts against it. The holder of Store.mu
// uses them.
type bounds struct {
	limit   int64 // bytes
	used    int64 // by members, and reserved
	held    int64 // of used, what is reserved
	passing int64 // of held, what evicts nothing, since it is not going to be kept
	gone    int64 // of used, what was of members, and is sent still
}

// reserve takes n bytes for what is on its way to be kept. It refuses if half of the limit is
// reserved so, or what is sent just now leaves no room, unless forced.
func (b *bounds) reserve(n int64, force bool, shrink func()) bool {
	if !force && b.held-b.passing+n > b.limit/2 {
		return false
	}
	b.held += n
	b.used += n
	if shrink(); !force && b.full() {
		b.held -= n
		b.used -= n
		return false
	}
	return true
}

// pass takes n bytes for what is not going to be kept. It evicts nothing.
func (b *bounds) pass(n int64) {
	b.held += n
	b.passing += n
	b.used += n
}

// release gives back n bytes, of which so many were taken by pass.
func (b *bounds) release(n, passing int64) {
	b.held -= n
	b.passing -= passing
	b.used -= n
}

// tight reports whether half of the limit is reserved, or passes.
func (b *bounds) tight() bool { return b.held > b.limit/2 }

// full reports whether there is more than fits.
func (b *bounds) full() bool { return b.used-b.passing > b.limit }

// leave counts n bytes of what was a member until it is sent, and settle gives them back.
func (b *bounds) leave(n int64) {
	b.used += n
	b.gone += n
}

func (b *bounds) settle(n int64) {
	b.used -= n
	b.gone -= n
}
