package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// table is what an htpasswd file says. It does not change, except that its entries learn which
// credentials were right.
type table struct {
	key   [sha256.Size]byte // of the digests, made at random
	users map[string]*entry
	all   []*entry
}

// entry is a user.
type entry struct {
	name string
	hash hash

	// proved is the digest of the last credentials that were right, and until when that counts. A
	// user has one password, so nothing else is to be remembered, and a client that tries others
	// cannot make the server forget it.
	proved atomic.Pointer[proof]
}

type proof struct {
	digest [sha256.Size]byte
	until  time.Time
}

// lineError is a mistake in a file.
type lineError struct {
	line int
	msg  string
}

func (e *lineError) Error() string { return fmt.Sprintf("%d: %s", e.line, e.msg) }

// maxName is the length of the longest name, in bytes. Each line of the access log has the name.
const maxName = 255

// parse reads the text of an htpasswd file: lines of name:hash, empty lines, and lines that begin
// with #. What follows a second colon is a comment, as it is to nginx. Errors are *lineError, and
// do not repeat what may be a password.
func parse(text []byte) (*table, error) {
	t := &table{users: make(map[string]*entry)}
	_, _ = rand.Read(t.key[:])                            // which does not fail
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // which editors of Windows put in front
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimRight(line, "\r\n")
		if len(bytes.TrimSpace(line)) == 0 || line[0] == '#' {
			continue
		}
		wrong := func(format string, args ...any) (*table, error) {
			return nil, &lineError{number, fmt.Sprintf(format, args...)}
		}
		name, rest, ok := strings.Cut(string(line), ":")
		switch {
		case !ok:
			return wrong("expected name:hash, found no colon")
		case name == "":
			return wrong("expected a name in front of the colon")
		case len(name) > maxName:
			return wrong("a name has at most %d bytes", maxName)
		case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
			// RFC 7617 section 2
			return wrong("control characters cannot be part of a name")
		case t.users[name] != nil:
			return wrong("there is another user %q above", name)
		}
		coded, _, _ := strings.Cut(rest, ":")
		h, err := parseHash(strings.TrimRight(coded, " \t"))
		if err != nil {
			return wrong("user %q: %v", name, err)
		}
		e := &entry{name: name, hash: h}
		t.users[name] = e
		t.all = append(t.all, e)
	}
	return t, nil
}

// decoy returns an entry whose hash is computed for a name that no user has, and nil if there is no
// user at all. It is the same for each attempt at a name, and it is chosen among all entries: so a
// name that does not exist takes as long as one that does, whatever kinds of hashes there are.
func (t *table) decoy(name []byte) *entry {
	if len(t.all) == 0 {
		return nil
	}
	sum := sha256.Sum256(slices.Concat(t.key[:], name))
	return t.all[binary.NativeEndian.Uint64(sum[:])%uint64(len(t.all))]
}
