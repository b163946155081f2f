package cachestore

import "sync/atomic"

// Long is from which length on, in bytes, the store counts who sends a body. Shorter ones are
// mostly copied to buffers that are larger. One that a client does not take keeps its slab after it
// was evicted: see leftovers.
const Long = 32 << 10

// long is a long body in memory, which a 304 leaves to another object. As long as it is sent, it
// takes memory, whether an object has it or not.
type long struct {
	store *Store
	size  int64
	users atomic.Int64 // that send it
	kept  atomic.Int64 // members of Store.memory that have it; changed below Store.mu
	gone  bool         // it counts in Store.memory.gone; guarded by Store.mu
}

func (s *Store) newLong(body string) *long {
	if len(body) < Long {
		return nil
	}
	return &long{store: s, size: size(len(body))}
}

// use counts one more that sends it. The caller may hold Store.mu if an object is a member that has
// it.
func (l *long) use() {
	if l.users.Add(1) > 1 {
		return
	}
	l.store.sending.Add(l.size)
	if l.kept.Load() == 0 {
		l.lockAndCount()
	}
}

// leaves ends a use.
func (l *long) leaves() {
	if l.users.Add(-1) > 0 {
		return
	}
	l.store.sending.Add(-l.size)
	if l.kept.Load() == 0 {
		l.lockAndCount()
	}
}

func (l *long) lockAndCount() {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.count()
}

// count counts the bytes in the store's memory, if no member does and somebody sends them, or ends
// that. Of whoever changes kept and whoever changes users, the later one sees both. The caller
// holds Store.mu.
func (l *long) count() {
	gone := l.kept.Load() == 0 && l.users.Load() > 0
	if gone == l.gone {
		return
	}
	if l.gone = gone; gone {
		l.store.memory.leave(l.size)
	} else {
		l.store.memory.settle(l.size)
	}
}

// come and leave note that an object which has it has become a member of Store.memory, or is none
// any more. The caller holds Store.mu.
func (l *long) come() {
	if l != nil {
		l.kept.Add(1)
		l.count()
	}
}

func (l *long) leave() {
	if l != nil {
		l.kept.Add(-1)
		l.count()
	}
}

// overused reports whether a new body of n bytes is not kept, since too many that are long are
// being sent: what is evicted meanwhile gives no memory back, and clients may read as slowly as
// they like. No client brings that about alone, see shares.
func (s *Store) overused(n int64) bool {
	return n >= Long && s.sending.Load()+n > s.options.Load().Memory/2
}

// busy reports whether an object's body is being sent, so that its eviction would give nothing
// back.
func (o *Object) busy() bool { return o.Long() && o.x.long.users.Load() > 0 }

func (o *Object) joined() {
	if o.x != nil {
		o.x.long.come()
	}
}

func (o *Object) left() {
	if o.x != nil {
		o.x.long.leave()
	}
}

// Long reports whether the body is in memory and so long that the store counts who sends it.
func (o *Object) Long() bool { return o.x != nil && o.x.long != nil }

// fileBusy reports whether somebody reads a file, which is open anyway while it is in
// disk.keptOpen. The caller holds s.mu.
func (s *Store) fileBusy(f *file) bool {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	return f.shared != nil && f.shared.refs.Load() > 1
}
