package cachestore

import (
	"unsafe"
	"weak"
)

// Names for tests.
const (
	MaxMarks = maxMarks
	MaxLines = maxLines
	SlowDisk = slowDisk
)

// Marks returns how many purges are remembered.
func (s *Store) Marks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.purges.tags) + len(s.purges.prefixes) +
		len(s.purges.lines)
}

// Check panics if what the store counts is not what it has.
func (s *Store) Check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.memory
	objects := map[uint32]int64{}
	live := make([]int32, len(m.info))
	singles := make([]int64, len(m.info))
	strayed := make([]uint32, len(s.table.strayed))
	for i := range s.table.buckets {
		b := &s.table.buckets[i]
		for j := range b.refs {
			tag := b.tags.Load() >> (8 * j) & 0xff
			if r := ref(b.refs[j].Load()); r == 0 && tag != 0 ||
				r != 0 && tagOf((*Object)(m.at(r)).hash) != tag {
				panic("a tag is another object's")
			}
		}
		tags := b.tags.Load()
		for r := ref(b.more.Load()); r != 0; {
			o := (*Object)(m.at(r))
			if tags&bitOf(o.hash) == 0 {
				panic("an object of a list is not noted")
			}
			if tags>>countAt < manyMore {
				tags -= 1 << countAt
			}
			r = ref(o.next.Load())
		}
		if n := tags >> countAt; n != 0 && n != manyMore {
			panic("the objects of a list are counted wrong")
		}
		own := 0
		s.table.each(&m.slots, uint64(i), func(o *Object) bool {
			if near := s.table.near(o.hash); near != uint64(i) {
				strayed[near/shared]++
			} else if own++; own > maxChain {
				panic("a bucket is too full")
			}
			slot := o.self.slot()
			if o.where() != m.info[slot].queue || unsafe.Pointer(o) != m.at(o.self) || o.store != s.number {
				panic("an object is in disorder")
			}
			objects[o.where()]++
			live[slot] += o.size
			if o.x != nil {
				singles[slot] = o.cost()
			}
			for i := range o.forms {
				if c := m.form(ref(o.forms[i].Load())); c != nil && !c.unwanted {
					live[c.self.slot()] += c.size
				} else if c != nil {
					panic("a form is unwanted")
				}
			}
			return true
		})
	}
	for i := range strayed {
		if strayed[i] != s.table.strayed[i].Load() {
			panic("an object has strayed, and is not counted")
		}
	}
	var bytes int64
	queues := map[uint32]int64{}
	for i, x := range m.info {
		if x.queue == nowhere {
			continue
		}
		bytes += x.cost
		queues[x.queue] += x.cost
		if x.live < live[i] || x.used > 0 && x.cost != int64(m.size) ||
			x.used == 0 && x.cost != singles[i] {
			panic("a slot is in disorder")
		}
		if live[i] == 0 && i != m.small.open && i != m.main.open {
			panic("an empty slab is kept")
		}
	}
	var files, blocks int64
	cold := make([]uint32, len(s.table.cold))
	entries := s.entries.all()
	if len(entries) != s.entries.n {
		panic("entries are lost")
	}
	for _, e := range entries {
		if s.entryOf(e.hash, e.key) == nil || !onLine(s, e) || !e.listed ||
			len(e.fills)+len(e.apart)+len(e.files) == 0 && e.load == nil {
			panic("an entry is in disorder")
		}
		for _, f := range e.files {
			if f.entry != e || f.in.where() == nowhere ||
				f.object != nil && (f.object.where() == nowhere || f.object.file() != f) ||
				f.object == nil && !e.cold && e.load == nil {
				panic("a file is in disorder")
			}
			files++
			blocks += f.in.cost
		}
		if e.cold {
			cold[s.table.near(e.hash)/shared]++
		}
	}
	for i := range cold {
		if cold[i] != s.table.cold[i].Load() {
			panic("an entry is cold, and not counted")
		}
	}
	var onDisk fileQueues
	if s.disk != nil {
		onDisk = s.disk.files
	}
	held, reserved := s.lingering, int64(0)
	for f := s.filling; f != nil; f = f.older {
		held += f.held
		f.mu.Lock()
		if f.out != nil {
			reserved += f.out.reserved
		}
		f.mu.Unlock()
	}
	if held != m.held || m.passing < 0 || m.passing > held || reserved != onDisk.held {
		panic("the bytes of fills are wrong")
	}
	if objects[inSmall] != m.small.n || objects[inMain] != m.main.n ||
		queues[inSmall] != m.small.bytes || queues[inMain] != m.main.bytes ||
		bytes+m.held+m.gone+s.fixed()+files*fileCost != m.used {
		panic("the bytes in memory are wrong")
	}
	if d := &onDisk; files != d.small.n+d.main.n || blocks+d.held+d.gone != d.used {
		panic("the bytes on disk are wrong")
	}
}

// Leftovers returns how many bytes of slabs that were evicted count, and of how many slabs it is
// not known that they are gone.
func (s *Store) Leftovers() (held int64, slabs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memory.left.held, len(s.memory.left.list)
}

// onLine reports whether an entry is among those of its line.
func onLine(s *Store, e *entry) bool {
	x := *s.entries.ofLine(e.hash)
	for x != nil && x != e {
		x = x.behind
	}
	return x == e
}

// Aside returns how many bytes the store has of the heap that it never touches.
func (s *Store) Aside() int64 { return s.table.aside }

// Survivors returns how many evicted slabs are in memory still.
func (s *Store) Survivors() (slabs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.memory.left.list {
		if s.memory.left.list[i].slab.Value() != nil {
			slabs++
		}
	}
	return slabs
}

// Spare returns how many entries are there to be used again.
func (s *Store) Spare() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.spare)
}

// Locked reports whether the store's lock is held.
func (s *Store) Locked() bool {
	if !s.mu.TryLock() {
		return true
	}
	s.mu.Unlock()
	return false
}

// Settled reports whether the disk has nothing to do.
func (s *Store) Settled() bool {
	s.mu.Lock()
	scanning := s.scanning() || s.purges.sweeping
	s.mu.Unlock()
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	return !scanning && s.disk.workers == 0 && s.disk.ready.Load()
}

// Functions for tests.
var (
	Sip      = siphash
	FileName = fileName
)

// EncodeHead makes a head.
func EncodeHead(key string, h Head, size int64) []byte {
	r := record{head: h, key: key, size: size}
	r.body = r.room()
	b, err := r.encode()
	if err != nil {
		panic(err)
	}
	return b
}

// Reencode panics if bytes that are a head are not the ones that the head is written as.
func Reencode(b []byte) {
	if len(b) < fixedHead {
		return
	}
	n, err := headLen(b)
	if err != nil {
		return
	}
	r, err := decode(b, 1<<20)
	if err != nil {
		return
	}
	again, err := r.encode()
	if err != nil || string(again[fixedHead:]) != string(b[fixedHead:n]) {
		panic("another head")
	}
}

// CloseKept closes all files that nobody sends.
func (s *Store) CloseKept() {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	for len(s.disk.keptOpen) > 0 {
		s.disk.closeKept(s.disk.keptOpen[0])
	}
}

// Stall has all workers hang until goOn is called.
func (s *Store) Stall() (goOn func()) {
	stop := make(chan struct{})
	for range maxWorkers {
		s.disk.do(func() { <-stop })
	}
	return func() { close(stop) }
}

// Checks notes that a body is being read to check it.
func (s *Store) Checks() { s.disk.checked.Add(1) }

// StallPurges has the disk write no purges until goOn is called.
func (s *Store) StallPurges() (goOn func()) {
	s.disk.writing.Lock()
	return s.disk.writing.Unlock
}

// Forget evicts all that is in memory.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.memory.small.n+s.memory.main.n > 0 {
		s.memory.step(false)
	}
}

// FirstChunk returns where the first bytes are that the fill has in memory.
func (f *Fill) FirstChunk() weak.Pointer[byte] { return weak.Make(&f.chunks[0][0]) }

// Sweeping reports whether what was purged is looked for.
func (s *Store) Sweeping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.purges.sweeping
}

// Queued returns how long the lists of the queues are.
func (s *Store) Queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.memory.small.list) + len(s.memory.main.list)
}

// Shares returns 0 if no client holds a long body, and nothing is left of what they have held.
func (s *Store) Shares() int {
	h := &s.shares
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.by.Len() + len(h.held) + int(min(h.total, 1<<20))
}

// LimitSlots lets the store have so many slots, a power of two that is 64 at least.
func (s *Store) LimitSlots(n int) { s.memory.most = n }
