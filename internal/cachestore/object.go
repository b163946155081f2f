package cachestore

import (
	"errors"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/lwango/lwango/loop"
)

// Head is all of an answer but its body. The store looks at Vary and Tags alone. The rest is the
// layer's, and is given back as it was, also after a restart. The strings should be no parts of
// larger ones, whose memory would be kept with them; if Parsed has memory of its own, it has a method
// Size() int that tells the bytes.
type Head struct {
	Status int
	Fields string // the header, as the layer likes to send it
	Vary   string // what selects the variant; of two objects with one Vary the newer one stays
	Tags   string // for Purge, with one space between two
	Parsed any    // what the layer has made of all that, and whatever else it has to know
}

// Object is an answer that is kept. It does not change, apart from Stale and the coded forms.
type Object struct {
	head  Head
	entry *entry
	body  string // in memory; a slice would be 8 bytes more
	long  *long  // of body; nil: it is short
	file  *file  // nil: the body is in memory
	store *Store

	seen  atomic.Uint64 // the last purge that does not matter for it
	coded atomic.Pointer[forms]
	alone variants      // the only one of its entry
	in    links[Object] // of Store.memory; marked with the Unix time of a soft purge, 0: none
}

func (o *Object) links() *links[Object] { return &o.in }
func (o *Object) ghost() uint64         { return o.entry.hash }

// Head returns the head, which nobody changes.
func (o *Object) Head() *Head { return &o.head }

// Size is the length of the body in bytes.
func (o *Object) Size() int64 {
	if o.file != nil {
		return o.file.size
	}
	return int64(len(o.body))
}

// Body returns the body of an object in memory, which nobody changes. ok is false for one on disk: Open gives its file.
func (o *Object) Body() (body []byte, ok bool) {
	return unsafe.Slice(unsafe.StringData(o.body), len(o.body)), o.file == nil
}

// Hit tells the policy of eviction that the object was used. Once the object is popular, that costs
// a load.
func (o *Object) Hit() {
	o.in.hit()
	if o.file != nil {
		o.file.in.hit()
	}
}

// Stale reports whether a soft purge has made the object stale.
func (o *Object) Stale() bool { return o.in.mark.Load() > 0 }

// StaleSince returns the time of that purge, in whole seconds.
func (o *Object) StaleSince() time.Time { return time.Unix(int64(o.in.mark.Load()), 0) }

// ErrGone is the error of Open for an object whose file cannot be read any more: it was evicted or
// purged, or the disk has failed, or hangs. The object is as good as never found.
var ErrGone = errors.New("cachestore: the object's file is gone")

// Open returns the file of an object on disk, in which the body has Size bytes from off on. It is a
// conn.File for SetBodyFile. t may wait for the disk. The file can be read until Close, whatever
// becomes of the object.
func (o *Object) Open(t *loop.Thread) (f *File, off int64, err error) {
	if o.file == nil {
		return nil, 0, ErrGone
	}
	f, err = o.store.disk.open(t, o.file)
	return f, o.file.body, err
}

// Forms is how many coded forms of a body are kept at most, such as gzip's. The layer gives them
// their numbers.
const Forms = 3

// forms are the coded forms of a body.
type forms [Forms]struct {
	claimed atomic.Bool
	coded   atomic.Pointer[[]byte]
}

// Form returns a coded form of the body of an object in memory that SetForm has left; nil if there
// is none. mine says that there is none, and that this caller is the one to make it: it calls
// SetForm afterwards, whatever comes of it.
func (o *Object) Form(form int) (coded []byte, mine bool) {
	f := o.coded.Load()
	if f == nil {
		if o.file != nil {
			return nil, false
		}
		o.begin()
		f = o.coded.Load()
	}
	if b := f[form].coded.Load(); b != nil {
		return *b, false
	}
	return nil, !f[form].claimed.Load() && f[form].claimed.CompareAndSwap(false, true)
}

// SetForm keeps a coded form, within the limits of the store, for as long as the object. nil means
// that it is not worth keeping; then Form does not ask for it again.
func (o *Object) SetForm(form int, coded []byte) {
	if coded == nil {
		return
	}
	o.store.mu.Lock()
	defer o.store.mu.Unlock()
	f := o.coded.Load()
	if !f[form].coded.CompareAndSwap(nil, &coded) {
		return
	}
	for _, x := range o.entry.list() { // a 304 may have put another one in o's place
		if x.coded.Load() == f {
			o.store.memory.grow(x, size(len(coded))+size(int(unsafe.Sizeof(coded))))
		}
	}
}

// begin makes a place for coded forms.
func (o *Object) begin() {
	o.store.mu.Lock()
	defer o.store.mu.Unlock()
	if o.coded.Load() == nil {
		f := new(forms)
		o.coded.Store(f)
		o.store.memory.grow(o, size(int(unsafe.Sizeof(*f))))
	}
}

// cost is what the object takes of memory, in bytes.
func (o *Object) cost() int64 {
	n := size(int(unsafe.Sizeof(*o))) + size(len(o.body)) + o.head.size()
	// its entry, its share of the table's buckets
	n += size(int(unsafe.Sizeof(entry{}))) + size(len(o.entry.key)) + 8
	if f := o.coded.Load(); f != nil {
		n += size(int(unsafe.Sizeof(*f)))
		for i := range f {
			if b := f[i].coded.Load(); b != nil {
				n += size(len(*b)) + size(int(unsafe.Sizeof(*b)))
			}
		}
	}
	return n
}

func (h *Head) size() int64 {
	n := size(len(h.Fields)) + size(len(h.Vary)) + size(len(h.Tags))
	if p, ok := h.Parsed.(interface{ Size() int }); ok {
		n += size(p.Size())
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
