package http1

// NameSet is a set of names of fields, in any case of letters, of which each has one of 64 bits. So
// it tells quickly, and for certain, which names are not in the set. One that may be is for the
// caller to compare.
type NameSet uint64

// NamesOf returns the set of these names.
func NamesOf(names ...string) (s NameSet) {
	for _, name := range names {
		s |= nameBit(name)
	}
	return s
}

// nameBit is the set of that name alone, by its length and first letter. With this factor few of
// the usual names share a bit with those in which a server is interested, and none of a usual GET
// with those that say something to caches: User-Agent, above all, comes with nearly every request.
func nameBit[T string | []byte](name T) NameSet {
	if len(name) == 0 {
		return 0
	}
	return 1 << ((uint(len(name)) + 2*uint(name[0]|0x20)) & 63)
}

// MayHave reports whether the name may be in the set.
func MayHave[T string | []byte](s NameSet, name T) bool { return s&nameBit(name) != 0 }
