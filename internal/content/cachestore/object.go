package cachestore

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/lwango/lwango/loop"
)

// Head is all of an answer but its body. The store looks at Vary and Tags alone. The rest is the
// layer's, and is given back as it was, also after a restart.
type Head struct {
	Status int
	Fields string // the header, as the layer likes to send it
	Vary   string // what selects the variant; of two objects with one Vary the newer one stays
	Tags   string // for Purge, with one space between two
	Reason string // another reason phrase than the usual one
	// what the layer has made of all that, and whatever else it has to know; nil: nothing
	Meta     *Meta
	Arriving any // the layer's, while the answer comes; it is not kept
}

// Meta is memory for a struct of the layer's without pointers.
type Meta [10]uint64

// Object is an answer that is kept. It does not change, apart from Stale and the coded forms. It is
// a record of a slab, with its texts and its body behind it, or an object of its own, whose texts
// and body x has. In a slab, x is nil: the collector does not look there.
type Object struct {
	cell    // what a lookup reads of objects on its way comes first
	hash    uint64
	id      uint64        // of the answer: a store carries its record to other places
	next    atomic.Uint64 // in the table; a removed object keeps it, for lookups on their way
	seen    atomic.Uint64 // the last purge that does not matter for it
	uses                  // and where it is
	staleAt atomic.Uint32 // Unix time of the soft purge that has made it stale; 0: none has

	forms [Forms]atomic.Uint64

	texts   uint32            // the length of all texts
	lengths [texts - 1]uint32 // of the texts but the last one
	size32  uint32            // of a body in the slab
	status  uint32
	store   uint32 // Store.number
	meta    Meta
	x       *extra
}

// fixed is where that begins which does not change, in an object but its hash and id.
const fixed = unsafe.Offsetof(Object{}.texts)

// The texts of an object, in this order.
const (
	textKey = iota
	textFields
	textVary
	textTags
	textReason
	texts
)

const objectSize = int(unsafe.Sizeof(Object{}))

// extra is what an object has that is no record of a slab.
type extra struct {
	text string // all texts
	body string
	long *long // of body; nil: it is short
	file *file // nil: the body is in memory
	all  *forms
}

// forms are the coded forms of a body. A 304 leaves them to another object.
type forms [Forms]struct {
	claimed atomic.Bool
	coded   atomic.Pointer[[]byte]
}

// answer is an object that is to be made.
type answer struct {
	key     string
	hash    uint64
	id      uint64
	seen    uint64
	staleAt uint32
	head    Head
	body    string
	long    *long // of body
	file    *file
	all     *forms

	borrowed bool // body is somebody else's
	// Another object of the same body, whose coded forms it takes over; nil: there is none.
	forms *Object
}

// takeForms takes over the coded forms of another object in a slab. The caller holds Store.mu.
func (o *Object) takeForms(from *Object) {
	if o.x != nil || from.x != nil {
		return
	}
	for i := range o.forms {
		if of := from.forms[i].Swap(0); of != formClaimed {
			o.forms[i].Store(of)
		}
	}
}

// make makes an object for the queue of where. Nobody else can find it yet. The caller holds
// Store.mu.
func (m *memory) make(a *answer, where uint32) *Object {
	h := &a.head
	parts := [texts]string{a.key, h.Fields, h.Vary, h.Tags, h.Reason}
	n := objectSize + len(a.body)
	for _, p := range &parts {
		n += len(p)
	}
	var o *Object
	if a.file == nil && a.long == nil && a.all == nil && n <= m.longest() {
		_, p := m.room(m.queue(where), n)
		o = (*Object)(p)
		b := unsafe.Slice((*byte)(unsafe.Add(p, objectSize)), n-objectSize)
		for _, part := range &parts {
			b = b[copy(b, part):]
		}
		copy(b, a.body)
		o.size32 = uint32(len(a.body))
	} else {
		if a.borrowed {
			a.body = strings.Clone(a.body)
		}
		o = &Object{x: &extra{text: strings.Join(parts[:], ""), body: a.body, long: a.long, file: a.file,
			all: a.all}}
		if o.x.all == nil && a.file == nil {
			o.x.all = new(forms)
		}
	}
	o.hash, o.id, o.status, o.store = a.hash, a.id, uint32(h.Status), m.store.number
	for i := range o.lengths {
		o.lengths[i] = uint32(len(parts[i]))
	}
	o.texts = uint32(n - objectSize - len(a.body))
	if h.Meta != nil {
		o.meta = *h.Meta
	}
	o.seen.Store(a.seen)
	o.staleAt.Store(a.staleAt)
	if o.x != nil {
		m.single(o, where)
	}
	return o
}

// all returns the texts, and behind them the body, unless x has it.
func (o *Object) all() string {
	if o.x != nil {
		return o.x.text
	}
	if o.texts+o.size32 == 0 {
		return "" // and no pointer behind the end of a slab
	}
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(o), objectSize)), o.texts+o.size32)
}

func (o *Object) key() string { return o.all()[:o.lengths[textKey]] }

// Meta returns what the layer has made of the head.
func (o *Object) Meta() *Meta { return &o.meta }

// Varies reports whether there is a Vary.
func (o *Object) Varies() bool { return o.lengths[textVary] > 0 }

// Vary returns the head's.
func (o *Object) Vary() string {
	all := o.all()[o.lengths[textKey]:][o.lengths[textFields]:]
	return all[:o.lengths[textVary]]
}

func (o *Object) tags() string { return o.Head().Tags }

// Head returns the head, which nobody changes.
func (o *Object) Head() Head {
	h, _, _ := o.View()
	return h
}

// View returns the head and, of an object in memory, the body. Nobody changes them. ok is false for
// an object on disk: Open gives its file.
func (o *Object) View() (h Head, body []byte, ok bool) {
	all := o.all()
	h.Status, h.Meta = int(o.status), &o.meta
	texts := all[o.lengths[textKey]:o.texts]
	h.Fields, texts = texts[:o.lengths[textFields]], texts[o.lengths[textFields]:]
	h.Vary, texts = texts[:o.lengths[textVary]], texts[o.lengths[textVary]:]
	h.Tags, h.Reason = texts[:o.lengths[textTags]], texts[o.lengths[textTags]:]
	content, ok := all[o.texts:], true
	if o.x != nil {
		content, ok = o.x.body, o.x.file == nil
	}
	return h, unsafe.Slice(unsafe.StringData(content), len(content)), ok
}

// Size is the length of the body in bytes.
func (o *Object) Size() int64 {
	switch {
	case o.x == nil:
		return int64(o.size32)
	case o.x.file != nil:
		return o.x.file.size
	}
	return int64(len(o.x.body))
}

func (o *Object) file() *file {
	if o.x == nil {
		return nil
	}
	return o.x.file
}

// content is the body in memory.
func (o *Object) content() string {
	if o.x != nil {
		return o.x.body
	}
	return o.all()[o.texts:]
}

// Body returns the body of an object in memory, which nobody changes. ok is false for one on disk:
// Open gives its file.
func (o *Object) Body() (body []byte, ok bool) {
	s := o.content()
	return unsafe.Slice(unsafe.StringData(s), len(s)), o.file() == nil
}

// Same reports whether both are the same answer: the store may have carried it to another place.
func (o *Object) Same(x *Object) bool {
	return o == x || o != nil && x != nil && o.id == x.id && o.store == x.store
}

// same reports whether two lists are of the same answers.
func same(a, b []*Object) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].Same(b[i]) {
			return false
		}
	}
	return true
}

// Hit tells the policy of eviction that the object was used. Once the object is popular, that costs
// a load.
func (o *Object) Hit() {
	o.hit()
	if o.x != nil && o.x.file != nil {
		o.x.file.hit()
	}
}

// Stale reports whether a soft purge has made the object stale.
func (o *Object) Stale() bool { return o.staleAt.Load() > 0 }

// StaleSince returns the time of that purge, in whole seconds.
func (o *Object) StaleSince() time.Time { return time.Unix(int64(o.staleAt.Load()), 0) }

// ErrGone is the error of Open for an object whose file cannot be read any more: it was evicted or
// purged, or the disk has failed, or hangs. The object is as good as never found.
var ErrGone = errors.New("cachestore: the object's file is gone")

// Open returns the file of an object on disk, in which the body has Size bytes from off on. It is a
// conn.File for SetBodyFile. t may wait for the disk. The file can be read until Close, whatever
// becomes of the object.
func (o *Object) Open(t *loop.Thread) (f *File, off int64, err error) {
	x := o.file()
	if x == nil {
		return nil, 0, ErrGone
	}
	f, err = x.open(t)
	return f, x.body, err
}

// cost is what an object of its own takes of memory, in bytes.
func (o *Object) cost() int64 {
	n := size(objectSize) + size(len(o.x.text)) + size(len(o.x.body)) +
		size(int(unsafe.Sizeof(extra{})))
	if o.x.long != nil {
		n += size(int(unsafe.Sizeof(long{})))
	}
	if f := o.x.all; f != nil {
		n += size(int(unsafe.Sizeof(*f)))
		for i := range f {
			if b := f[i].coded.Load(); b != nil {
				n += size(len(*b)) + size(int(unsafe.Sizeof(*b)))
			}
		}
	}
	return n
}

// size is what the allocator takes for n bytes, about: its classes are an eighth apart.
func size(n int) int64 {
	switch {
	case n == 0:
		return 0
	case n <= 128:
		return int64(n+15) &^ 15
	case n <= 32<<10:
		step := 16
		for step*16 < n {
			step *= 2
		}
		return int64(n+step-1) &^ int64(step-1)
	default:
		return int64(n+8191) &^ 8191
	}
}
