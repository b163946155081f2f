package servefiles

import (
	"io"
	"io/fs"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// regularFile is an open regular file. It belongs to the request that has opened it, or, once it is
// on a cache, to the threads of a loop: those that send from it, and the cache's.
type regularFile struct {
	facts   *metadata
	fd      int    // what conn sends from by sendfile, or reads; -1: content is all of the file
	content []byte // of a small file in a cache; it does not change

	dev, ino uint64 // of a file of a disk
	changed  int64  // Unix nanoseconds, by the file system; of a file of a disk

	// lacks has a bit for each coding in which there is no sibling, as far as that is known. It is
	// as old as the rest at most, and ends with it.
	lacks uint8

	// Of a file of an fs.FS.
	from io.ReaderAt
	file fs.File
	slow bool // reading may wait

	loop  *loop.Loop
	at    int64 // where Read goes on
	users int   // how many times Close is still to be called
	until time.Time
}

// regularFiles are opened files without users. Most files that are not in a cache have one for a
// request.
var regularFiles = sync.Pool{New: func() any { return new(regularFile) }}

// Fd returns the descriptor.
func (f *regularFile) Fd() uintptr { return uintptr(f.fd) }

// Read reads on. It is for a file that is not in a cache: requests would share the offset.
func (f *regularFile) Read(p []byte) (int, error) {
	n, err := f.readAt(p, f.at)
	f.at += int64(n)
	return n, err
}

// readAt reads what one call gives, at the given offset. If that has to come from a disk, the
// running thread waits for it, and its loop does not.
func (f *regularFile) readAt(p []byte, offset int64) (int, error) {
	if f.content != nil || len(p) == 0 {
		return readOnce(p, func() (int, error) {
			return copy(p, f.content[min(offset, int64(len(f.content))):]), nil
		})
	}
	if f.from != nil {
		return f.readFS(p, offset)
	}
	n, errno := sysio.ReadCached(f.fd, p, offset)
	switch errno {
	case 0:
		return readOnce(p, func() (int, error) { return n, nil })
	case unix.EAGAIN:
		if err := stream.Warm(f.loop.Layer().Current(), f.fd, offset, int64(len(p))); err != nil {
			return 0, err
		}
	}
	return readOnce(p, func() (int, error) { return unix.Pread(f.fd, p, offset) })
}

// content is an open file for byteranges.
type content struct{ *regularFile }

// ReadAt is readAt, and may read less than p has room for.
func (c content) ReadAt(p []byte, offset int64) (int, error) { return c.readAt(p, offset) }

// counted counts the descriptor for the request, which will hold it while its client takes the
// file. If the requests of the client hold too many, counted closes f and reports false. What is in
// a cache is counted there.
func (f *regularFile) counted(req *conn.Request) bool {
	if f.fd < 0 || f.users > 1 || req.Layer().TakeDescriptor() == nil {
		return true
	}
	_ = f.Close()
	return false
}

// unchanged reports whether the open file is still as its facts say.
func (f *regularFile) unchanged() bool {
	var st unix.Stat_t
	return unix.Fstat(f.fd, &st) == nil && st.Size == f.facts.size && st.Mtim == f.facts.mtime &&
		stateOf(&st) == f.facts.state
}

// load replaces the descriptor by the contents. It reports false, and changes nothing, if the file
// is not as its facts say any more: another process may have written to it since they were taken,
// and contents that are kept must have the entity tag of their own state. If the thread is killed
// while it waits for a disk, load closes f, which only that thread has.
func (f *regularFile) load() bool {
	killed := true
	defer func() {
		if killed {
			_ = f.Close()
		}
	}()
	content := make([]byte, f.facts.size)
	var err error
	for at, n := 0, 0; at < len(content) && err == nil; at += n {
		n, err = f.readAt(content[at:], int64(at))
	}
	killed = false
	if err != nil || !f.unchanged() {
		return false
	}
	_ = unix.Close(f.fd)
	f.fd, f.content = -1, content
	return true
}

// readOnce makes a call that reads into p, again after a signal, and its results those of an
// io.Reader.
func readOnce(p []byte, read func() (int, error)) (int, error) {
	for {
		n, err := read()
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Close closes the descriptor when the last user has called it. A user calls it once.
func (f *regularFile) Close() error {
	if f.users--; f.users > 0 {
		return nil
	}
	fd, file := f.fd, f.file
	*f = regularFile{}
	regularFiles.Put(f)
	if file != nil {
		return file.Close()
	}
	if fd < 0 {
		return nil
	}
	return unix.Close(fd)
}
