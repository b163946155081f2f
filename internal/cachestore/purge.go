package cachestore

// Purge says what is purged: one kind of the three, or all.
type Purge struct {
	Key    []byte   // this key
	Prefix []byte   // keys that begin with that
	Tags   []string // objects with one of these tags
	All    bool

	Soft bool // they become stale instead of gone
}

// Purge purges what is kept and what is on its way: nothing that was begun before is found
// afterwards, also after a restart. Memory is given back a little later. found reports whether
// there was something under a Key; it is true for the other kinds. With a folder, the call writes to
// disk, so threads call it off their loops. The error is that of the disk: then a restart may bring
// back what was purged.
func (s *Store) Purge(p Purge) (found bool, err error) { panic("soon") }
