package servefiles

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/modules/compression"
	"github.com/lwango/lwango/loop"
)

// negotiated reports whether f is a form of a file that may go out in others, too: whether what a
// client gets depends on the codings that it accepts. What counts is the type that the answer has
// so far: the handler that named the file may have set it. One that a rule sets behind the handler
// is not known yet.
func (m *module) negotiated(resp *conn.Response, f *regularFile) bool {
	if m.coding == nil || f.facts.coding != coding.Identity {
		return m.coding != nil
	}
	return m.coding.Worth(f.facts.size, cmp.Or(resp.Header().Get("Content-Type"), f.facts.contentType))
}

// encoded promises all of f in the coding in which the client is going to get it; nil: it will be
// encoded while it is sent, or not at all. What is not kept is made, once for all that ask for it
// meanwhile. The header has the answer's Content-Type.
func (m *module) encoded(req *conn.Request, resp *conn.Response,
	f *regularFile) (*loop.Promise[[]byte], coding.Coding) {
	h := resp.Header()
	if m.cache == nil || f.facts.size > m.cache.MaxFile() || h.Has("Content-Encoding") ||
		!m.coding.Worth(f.facts.size, h.Get("Content-Type")) {
		return nil, coding.Identity
	}
	c := compression.Choose(req.Layer(), m.coding.Order, h.Get("Content-Type"))
	key, ok := m.key(f, req.Loop().Time())
	if c == coding.Identity || !ok {
		return nil, coding.Identity
	}
	key.Coding, key.Level = c, m.coding.Level
	body, mine := m.cache.Get(key)
	if mine {
		m.encode(req.Loop(), key, f)
	}
	return body, c
}

// untouched is for how long a file must not have changed when it is compressed to be kept. Tests
// set it, as they cannot set a time of change.
var untouched = settled

// key names the present state of f. It reports false if that may change without another time of
// change, since it has changed just now; and for a file that cannot be read any more once the
// request is over.
func (m *module) key(f *regularFile, now time.Time) (key coding.Key, ok bool) {
	key = coding.Key{Size: f.facts.size, Modified: f.facts.mtime.Nano()}
	at := key.Modified
	if m.fsys == nil {
		key.Dev, key.Ino, key.Changed = f.dev, f.ino, f.changed
		at = f.changed
	} else {
		key.Source, key.Name = m.id, f.facts.name
		if state := f.facts.state; state != (inode{}) {
			key.Ino, key.Changed = state.number, state.changed.Nano()
			at = key.Changed
		}
	}
	return key, now.UnixNano()-at >= int64(untouched) && (f.content != nil || !f.slow)
}

// sources number the modules that have a file system.
var sources atomic.Uint64

// encode fills the cache. It reads the file off the loop, and not from f: the request may be over
// before.
func (m *module) encode(l *loop.Loop, key coding.Key, f *regularFile) {
	unchanged := func() bool { return true }
	switch {
	case f.content != nil:
		m.cache.Make(l.Layer().StartGoroutine, key, bytes.NewReader(f.content), unchanged)
		return
	case f.from != nil:
		m.cache.Make(l.Layer().StartGoroutine, key, io.NewSectionReader(f.from, 0, key.Size), unchanged)
		return
	}
	fd, err := unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		m.cache.Put(key, nil)
		return
	}
	own := os.NewFile(uintptr(fd), f.facts.name)
	m.cache.Make(l.Layer().StartGoroutine, key, io.NewSectionReader(own, 0, key.Size), func() bool {
		defer own.Close()
		var st unix.Stat_t
		return unix.Fstat(fd, &st) == nil && st.Size == key.Size &&
			st.Mtim.Nano() == key.Modified && st.Ctim.Nano() == key.Changed
	})
}
