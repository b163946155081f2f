package cachestore

import (
	"bytes"
	"unsafe"
)

// Forms is how many coded forms of a body are kept at most, such as gzip's. The layer gives them
// their numbers.
const Forms = 3

// formClaimed is in Object.forms while somebody makes a form, or if that is not worth keeping.
const formClaimed = 1

// Form returns a coded form of the body of an object in memory that SetForm has left; nil if there
// is none. mine says that there is none, and that this caller is the one to make it: it calls
// SetForm afterwards, whatever comes of it. The form of an object in a slab may be forgotten before
// the object; then it is made once more.
func (s *Store) Form(o *Object, form int) (coded []byte, mine bool) {
	switch {
	case o.file() != nil || o.store != s.number:
		return nil, false
	case o.x != nil:
		f := &o.x.all[form]
		if b := f.coded.Load(); b != nil {
			return *b, false
		}
		return nil, !f.claimed.Load() && f.claimed.CompareAndSwap(false, true)
	}
	coded, n := s.form(o, form)
	if coded == nil && n != formClaimed && o.where() == nowhere { // nobody would see a claim on a copy
		s.mu.Lock()
		o = s.current(o)
		s.mu.Unlock()
		if o == nil {
			return nil, false
		}
		coded, n = s.form(o, form)
	}
	return coded, coded == nil && n != formClaimed && o.forms[form].CompareAndSwap(n, formClaimed)
}

// form returns a coded form of an object in a slab, if there is one, and what o has of it.
func (s *Store) form(o *Object, form int) (coded []byte, n uint64) {
	n = o.forms[form].Load()
	c := s.memory.form(ref(n))
	switch {
	case c == nil:
		return nil, n
	case s.memory.left.many.Load():
		return bytes.Clone(c.bytes()), n
	}
	return c.bytes(), n
}

// SetForm keeps a coded form, within the limits of the store, for as long as the object. nil means
// that it is not worth keeping; then Form does not ask for it again.
func (s *Store) SetForm(o *Object, form int, coded []byte) {
	if len(coded) == 0 || o.file() != nil || o.store != s.number {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.x != nil {
		if !o.x.all[form].coded.CompareAndSwap(nil, &coded) {
			return
		}
		n := size(len(coded)) + size(int(unsafe.Sizeof(coded)))
		for _, x := range s.objects(o.hash, o.key()) { // a 304 may have put another one in o's place
			if x.x != nil && x.x.all == o.x.all {
				s.memory.grow(x, n)
			}
		}
		return
	}
	o = s.current(o)
	n := codedSize + len(coded)
	if o == nil || n > s.memory.longest() || o.forms[form].Load() > formClaimed {
		return
	}
	r, p := s.memory.room(s.memory.queue(o.where()), n)
	c := (*codedForm)(p)
	c.kind, c.n = isForm, uint32(len(coded))
	copy(c.bytes(), coded)
	o.forms[form].Store(uint64(r))
	s.memory.shrink()
}
