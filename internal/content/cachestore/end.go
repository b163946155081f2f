package cachestore

import (
	"io"
	"slices"
	"strings"
	"unsafe"
)

// Commit says that the answer is complete, and checks its length. Readers come to the end of the
// body. The object is what was kept. It is nil, and so is the error, where the disk is still being
// written; Reader.Object waits for that.
func (f *Fill) Commit() (*Object, error) {
	if f.length >= 0 && f.size != f.length {
		f.Abort(ErrLength)
		return nil, ErrLength
	}
	s := f.store
	var a *answer
	switch f.mu.Lock(); {
	case !f.kept:
		f.mu.Unlock()
	case f.out != nil:
		f.end = io.EOF
		f.schedule()
		f.wake()
		f.mu.Unlock()
		return nil, nil
	default:
		f.mu.Unlock()
		body := f.body()
		a = &answer{head: *f.head.Load(), body: body, long: s.newLong(body)}
	}
	s.mu.Lock()
	f.mu.Lock()
	var o *Object
	if a != nil && !f.purged && !s.closed {
		o = f.keep(a)
	}
	f.finish(o, io.EOF)
	f.mu.Unlock()
	s.mu.Unlock()
	if o == nil {
		return nil, ErrNotKept
	}
	return o, nil
}

// keep keeps an answer, and returns nil if it was purged or there is no room for it. Readers read
// the object's body. The caller holds the locks of the store and of f.
func (f *Fill) keep(a *answer) *Object {
	s := f.store
	a.key, a.hash, a.seen, a.staleAt = f.entry.key, f.entry.hash, f.since, f.stale
	f.giveBack(f.held)
	o := s.keep(a)
	if f.since < s.purges.now { // it may have been purged while it came
		s.examineLocked(a.hash, a.key)
		if o != nil {
			o = s.current(o)
		}
	}
	switch {
	case len(f.readers) == 0: // nor will there be any
	case o == nil:
		f.share(a.body)
		n := int64(len(a.body)) // which finish leaves to them
		f.held, f.passing = f.held+n, f.passing+n
		s.memory.pass(n)
	default:
		f.share(o.content())
	}
	return o
}

// Whole is Start, Write and Commit of a short answer that is there at once: most are, and it takes
// the locks once. body and the bytes of h.Fields are the caller's again afterwards. It returns
// where the head is, or nil if the answer goes the way of others, which has not begun then. The
// object is nil if there was no room for it.
func (f *Fill) Whole(h Head, body []byte) (*Head, *Object) {
	s, n := f.store, int64(len(body))
	if most, split := s.longest(); n > min(most, chunk) || split >= 0 && n > split || s.overused(n) {
		return nil, nil
	}
	a := answer{head: h, body: unsafe.String(unsafe.SliceData(body), len(body))}
	if a.borrowed = n < Long; !a.borrowed {
		a.body = string(body)
		a.long = s.newLong(a.body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.kept || f.purged || s.closed {
		return nil, nil
	}
	f.length, f.size = n, n
	o := f.keep(&a)
	if o != nil {
		f.space = o.Head()
	} else {
		f.space = h
		f.space.Fields = strings.Clone(h.Fields)
		if len(f.readers) > 0 {
			f.share(strings.Clone(a.body))
		}
	}
	f.head.Store(&f.space)
	f.finish(o, io.EOF)
	return &f.space, o
}

// body returns what has come in one piece.
func (f *Fill) body() string {
	var b []byte
	switch {
	case len(f.chunks) == 1 && cap(f.chunks[0])-len(f.chunks[0]) <= cap(f.chunks[0])/16:
		b = f.chunks[0]
	default:
		b = slices.Concat(f.chunks...)
	}
	return unsafe.String(unsafe.SliceData(b), len(b)) // bytes that are there do not change
}

// share has readers read an object's body, so that nothing else of it is in memory. The caller
// holds f.mu.
func (f *Fill) share(body string) {
	// Those that read just now have copies of the slices, and not of the list.
	f.chunks, f.base = f.chunks[:0], 0
	for b := unsafe.Slice(unsafe.StringData(body), len(body)); len(b) > 0; {
		n := min(len(b), chunk)
		f.chunks = append(f.chunks, b[:n:n])
		b = b[n:]
	}
}

// Abort says that there will be no answer, or no more of it. Readers get err, for the head or the
// rest of the body; nothing is kept. Where the head shows that the answer must not be shared, err
// tells the readers that, and they ask for themselves, all at once.
func (f *Fill) Abort(err error) {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finish(nil, err)
}

// Freshen ends the fill with what is kept already: the origin has answered 304. old is replaced by
// an object with another head and the same body, which is returned. It is nil if old is not kept
// any more, or was purged meanwhile. Readers get ErrAgain.
func (f *Fill) Freshen(old *Object, h Head) *Object {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	var o *Object
	if !f.purged && !s.closed {
		o = s.change(old, h, f.since, f.stale)
	}
	if o != nil {
		if file := o.file(); file != nil {
			s.rewrite(file)
		}
		s.examineLocked(o.hash, o.key())
		o = s.current(o)
	}
	f.finish(o, ErrAgain)
	return o
}

// finish ends the fill. The caller holds the locks of the store and of f.
func (f *Fill) finish(o *Object, end error) {
	if f.done {
		return
	}
	s := f.store
	s.unfill(f)
	if o == nil {
		s.dropped.Add(1)
	}
	f.unlistLocked(false)
	if f.out == nil { // else a worker may use the entry
		s.leave(f.entry)
		f.entry = nil
	}
	f.object, f.end, f.done = o, end, true
	if o != nil && len(f.readers) > 0 && o.x != nil && o.x.long != nil && end == io.EOF {
		f.using = o.x.long // which they read
		f.using.use()
		for _, r := range f.readers {
			s.hold(f.using, r.client, false)
		}
	}
	s.unclaim(f.client, f.claimed)
	f.claimed = 0
	rest := f.rest()
	f.giveBack(f.held - rest)
	f.trimmed = 0
	s.lingering += rest
	if f.out != nil {
		f.out.disk.files.release(f.out.reserved, 0)
		if o == nil && f.out.file != nil && len(f.readers) > 0 { // which read from it
			f.out.file.leave(f.out.reserved)
		}
		f.out.reserved = 0
		f.schedule()
		f.drop()
	}
	f.wake()
}

// rest returns how many bytes readers have still to read from memory, and forgets the others. The
// bytes of an object are its own. The caller holds the locks of the store and of f.
func (f *Fill) rest() (n int64) {
	f.trim()
	if len(f.readers) == 0 {
		f.forget()
	}
	if o := f.object; o != nil && o.file() == nil {
		return 0
	}
	for _, c := range f.chunks {
		n += int64(len(c))
	}
	return min(n, f.held)
}

// left gives back what finish has left to the readers, once the last of them is gone.
func (f *Fill) left() {
	if l := f.using; l != nil {
		f.using = nil
		l.leaves()
	}
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lingering -= f.held
	f.giveBack(f.held)
}

// purge says that a purge has come, with the Unix time of a soft one, or 0. The caller holds
// Store.mu.
func (f *Fill) purge(soft uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case soft == 0:
		f.purged = true
	case f.stale == 0:
		f.stale = soft
	}
}
