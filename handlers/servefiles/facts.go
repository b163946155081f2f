package servefiles

import (
	"hash/maphash"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/mediatype"
)

// metadata are the header values that describe one state of one file.
type metadata struct {
	name  string
	size  int64
	mtime unix.Timespec
	state inode // zero, if mtime says when the file was changed

	contentType  string
	coding       coding.Coding // of a sibling, which is sent as if it were the other file
	etag         string
	lastModified string // empty: not known
	modified     int64  // lastModified, Unix seconds

	asked atomic.Int64 // when the file was opened last, Unix milliseconds
}

// inode tells a file from another one of the same name, and from its own earlier states.
type inode struct {
	number  uint64
	changed unix.Timespec
}

// unknownTime reports whether a modification time is one that says nothing: images and packages
// that are made to be the same each time give all their files the second 0 or 1 (SOURCE_DATE_EPOCH,
// Nix). The file in the place of such a file has the same time.
func unknownTime(mtime unix.Timespec) bool { return mtime.Sec <= 1 }

// stateOf returns what facts have beside a modification time that says nothing.
func stateOf(st *unix.Stat_t) (state inode) {
	if unknownTime(st.Mtim) {
		state = inode{st.Ino, st.Ctim}
	}
	return state
}

// newFacts writes the values. The entity tag is a strong one (RFC 9110 section 8.8.1): the
// modification time in nanoseconds and the length, in hexadecimal. It leaves out the inode, so that
// machines behind one address give copies of the same file the same tag. But where that time says
// nothing, the inode and its change are there instead, and there is no date.
// That of a sibling (see siblingKey) names its coding.
func newFacts(name []byte, st *unix.Stat_t, own map[string]string, now time.Time) *metadata {
	f := &metadata{name: string(name), size: st.Size, mtime: st.Mtim, state: stateOf(st)}
	file, encoding, _ := strings.Cut(f.name, "\x00")
	f.contentType = mediatype.Of(file, own)
	f.coding, _ = coding.Named(encoding)

	var buf [64]byte
	b := append(buf[:0], '"')
	if unknownTime(st.Mtim) {
		b = append(strconv.AppendUint(b, st.Ino, 16), '-')
		b = strconv.AppendUint(b, uint64(st.Ctim.Nano()), 16)
	} else {
		b = strconv.AppendUint(b, uint64(st.Mtim.Nano()), 16)
	}
	b = append(b, '-')
	b = strconv.AppendUint(b, uint64(st.Size), 16)
	if f.coding != coding.Identity {
		b = append(append(b, '-'), encoding...)
	}
	b = append(b, '"')
	f.etag = string(b)

	if unknownTime(st.Mtim) {
		return f
	}
	// RFC 9110 section 8.8.2.1: a Last-Modified later than Date must not be sent, since the client
	// could not tell the next change from it. A file from the future counts as changed just now.
	f.modified = min(st.Mtim.Sec, now.Unix())
	f.lastModified = string(http1.AppendDate(buf[:0], time.Unix(f.modified, 0)))
	return f
}

// dated reports whether it is known when the file was changed. Where it is not, conditions by a
// date do not count (RFC 9110 sections 13.1.3 and 13.1.4).
func (f *metadata) dated() bool { return f.lastModified != "" }

func (f *metadata) validators() http1.Validators {
	return http1.Validators{ETag: f.etag, Modified: f.modified, Dated: f.dated()}
}

// same reports whether f describes the file that st was taken of.
func (f *metadata) same(name []byte, st *unix.Stat_t) bool {
	return f.size == st.Size && f.mtime == st.Mtim && f.state == stateOf(st) && f.name == string(name)
}

// again reports whether the file was opened within the last second, and notes that it is now. Any
// goroutine may call it.
func (f *metadata) again(now time.Time) bool {
	ms := now.UnixMilli()
	return ms-f.asked.Swap(ms) < cachedFor.Milliseconds()
}

// metadataCache keeps the values of the files that clients ask for most, so that they are not
// written each time that a file is opened. It keeps no state of files: the values are compared with
// that of the open file. Files share slots, and a slot holds the one that was asked for last. So
// the memory is bounded, and loops need neither a lock nor a list of what is there.
type metadataCache struct {
	seed  maphash.Seed
	slots [512]atomic.Pointer[metadata]
}

// maxCachedName bounds the names in the slots: clients choose them.
const maxCachedName = 256

func newFactsCache() *metadataCache { return &metadataCache{seed: maphash.MakeSeed()} }

// get returns the facts of the file. Any goroutine may call it.
func (c *metadataCache) get(name []byte, st *unix.Stat_t, own map[string]string) *metadata {
	if len(name) > maxCachedName {
		return newFacts(name, st, own, time.Now())
	}
	slot := &c.slots[maphash.Bytes(c.seed, name)%uint64(len(c.slots))]
	if f := slot.Load(); f != nil && f.same(name, st) {
		return f
	}
	f := newFacts(name, st, own, time.Now())
	if f.modified == st.Mtim.Sec || !f.dated() { // else the date moves with the clock
		slot.Store(f)
	}
	return f
}
