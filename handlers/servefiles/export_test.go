package servefiles

import (
	"io/fs"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/openfiles"
	"github.com/lwango/lwango/internal/wire/mediatype"
	"github.com/lwango/lwango/loop"
)

// SetCachedFor sets for how long a file is kept at hand. No server runs meanwhile, until the test's
// end.
func SetCachedFor(t testing.TB, d time.Duration) {
	old := cachedFor
	cachedFor = d
	t.Cleanup(func() { cachedFor = old })
}

// For what a file tree cannot show: tests may run as root, which may read every file.
var (
	StatusOf       = statusOf
	Types          = mediatype.Types
	FolderLocation = folderLocation
)

// Load opens a file and takes its state, calls change, and reports whether the contents may be kept
// after that.
func Load(path string, change func()) (bool, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	f := &regularFile{fd: fd, users: 1}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	f.facts = newFactsCache().get([]byte(path), &st, nil)
	change()
	return f.load(), nil
}

// MaxListed is how many entries a listing shows.
const MaxListed = maxListed

// SetListings sets for how long a listing is kept, and how many bytes all of a route may take. No
// server runs meanwhile, until the test's end.
func SetListings(t testing.TB, kept time.Duration, room int) {
	oldFor, oldRoom := listingFor, listingRoom
	listingFor, listingRoom = kept, room
	t.Cleanup(func() { listingFor, listingRoom = oldFor, oldRoom })
}

// Href and Text are how a listing writes a name.
func Href(name string) string { return string(appendHref(nil, &entry{name: name})) }
func Text(name string) string { return string(appendText(nil, name)) }

// Size is how a listing writes a length.
func Size(n int64) string { return string(appendSize(nil, n)) }

// IsEmbedded reports whether the calls of a file system are made on the loop.
var IsEmbedded = isEmbedded

// OnLoop reports whether a file of an embed.FS is opened on the loop, and with what error if not.
func OnLoop(fsys fs.FS, name string) (bool, error) {
	m := &module{fsys: fsys, inMemory: true, facts: newFactsCache()}
	f, err := m.openName(name, name, hashedAtOnce)
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// ErrUnhashed is what a large file of an embed.FS is opened by a worker for.
var ErrUnhashed = errUnhashed

// SetUntouched sets for how long a file must not have changed when it is compressed to be kept. No
// server runs meanwhile, until the test's end.
func SetUntouched(t testing.TB, d time.Duration) {
	old := untouched
	untouched = d
	t.Cleanup(func() { untouched = old })
}

// SetBudget sets which descriptors the routes have that are made until the test's end.
func SetBudget(t testing.TB, b *openfiles.Budget) {
	old := budget
	budget = b
	t.Cleanup(func() { budget = old })
}

// Shares returns how many files of openFiles each of n loops may keep.
func Shares(openFiles, n int) (all []int) {
	var loops []*loop.Loop
	for range n {
		loops = append(loops, new(loop.Loop))
	}
	m := &module{openFiles: openFiles, loops: func() []*loop.Loop { return loops }}
	for _, l := range loops {
		all = append(all, m.share(l))
	}
	return all
}
