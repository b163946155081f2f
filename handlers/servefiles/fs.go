package servefiles

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/loop"
)

// FS makes a handler that serves the files of fsys, such as an embed.FS, as New serves those of a
// folder: with entity tags, conditions, ranges, index, listing and fallback. It does not use the
// settings Path, FollowSymlinks and OpenFiles. fsys must be safe from any goroutine. The calls of
// an embed.FS are made on the loop, but for the hashing of a file of more than 16 KiB, those of
// another fs.FS by workers, since they may wait.
//
// The entity tag of a file without a modification time, as all of an embed.FS are, is made of its
// contents, when it is first asked for; such a file must not change. A file that is no io.ReaderAt
// is read whole for each request, and must not be longer than 16 MiB.
func FS(fsys fs.FS, s Settings, env handlers.Env) (conn.Handler, error) {
	m, err := configure(s, env)
	if err != nil {
		return nil, err
	}
	m.fsys, m.inMemory, m.id = fsys, isEmbedded(fsys), sources.Add(1)
	return m.serve, nil
}

// isEmbedded reports whether fsys is an embed.FS, or a part of one by fs.Sub, which hands out the
// same files.
func isEmbedded(fsys fs.FS) bool {
	f, err := fsys.Open(".")
	if err != nil {
		return false
	}
	defer f.Close()
	return fmt.Sprintf("%T", f) == "*embed.openDir"
}

// maxRead is the length up to which a file is read whole if it cannot be read in parts.
const maxRead = 16 << 20

var errTooLong = fmt.Errorf("a file that is no io.ReaderAt may have %d bytes", maxRead)

// away calls a function that opens something of fsys: off the loop, unless all is in memory.
func away[T any](m *module, t *loop.Thread, open func() (T, error), close func(T)) (T, error) {
	if m.inMemory {
		return open()
	}
	return elsewhere(t, open, close)
}

// openFS is open for a file of fsys.
func (m *module) openFS(t *loop.Thread, key, name string) (*regularFile, int) {
	if !fs.ValidPath(name) {
		return nil, http.StatusNotFound // such as "a.txt/"
	}
	f, err := (*regularFile)(nil), errUnhashed
	if m.inMemory {
		f, err = m.openName(key, name, hashedAtOnce)
	}
	if err == errUnhashed {
		f, err = elsewhere(t, func() (*regularFile, error) {
			return m.openName(key, name, math.MaxInt64)
		},
			func(f *regularFile) { _ = f.Close() })
	}
	switch {
	case err == nil:
		f.loop = t.Loop()
		return f, 0
	case errors.Is(err, errFolder):
		return nil, isFolder
	}
	status := statusOfFS(err)
	if status != http.StatusNotFound {
		m.logUnreadable([]byte(name), err)
	}
	return nil, status
}

// statusOfFS is statusOf for an error of an fs.FS.
func statusOfFS(err error) int {
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid):
		return http.StatusNotFound
	case errors.Is(err, fs.ErrPermission):
		return http.StatusForbidden
	case errors.As(err, &errno):
		return statusOf(errno)
	}
	return http.StatusInternalServerError
}

var (
	errFolder   = errors.New("a folder")
	errUnhashed = errors.New("a file of which no entity tag was made yet")
)

// hashedAtOnce is the length up to which a file that is in memory is hashed on the loop, in some
// tens of microseconds.
const hashedAtOnce = 16 << 10

// openName opens a regular file of fsys. Its facts are those of key, see openAs. The error is
// errUnhashed if more than mayHash bytes are to be hashed for them.
func (m *module) openName(key, name string, mayHash int64) (f *regularFile, err error) {
	file, err := m.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil || f == nil || f.file == nil { // nil: a call has panicked
			_ = file.Close()
		}
	}()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errFolder
	case !info.Mode().IsRegular():
		return nil, fs.ErrNotExist
	}
	f = &regularFile{fd: -1, users: 1, slow: !m.inMemory}
	if at, ok := file.(io.ReaderAt); ok {
		f.file, f.from = file, at
	} else if f.content, err = io.ReadAll(io.LimitReader(file, maxRead+1)); err != nil {
		return nil, err
	} else if len(f.content) > maxRead || int64(len(f.content)) != info.Size() {
		return nil, errTooLong
	}
	f.facts, err = m.factsFS(key, info, f, mayHash)
	return f, err
}

// factsFS returns the facts of an open file of fsys.
func (m *module) factsFS(
	name string, info fs.FileInfo, f *regularFile, mayHash int64,
) (*metadata, error) {
	st := &unix.Stat_t{Size: info.Size()}
	if at := info.ModTime(); !at.IsZero() {
		st.Mtim = unix.NsecToTimespec(at.UnixNano())
	}
	disk, ok := info.Sys().(*syscall.Stat_t)
	if ok && unknownTime(st.Mtim) {
		st.Ino, st.Ctim = disk.Ino, unix.Timespec(disk.Ctim)
	}
	if ok || !unknownTime(st.Mtim) {
		return m.facts.get([]byte(name), st, m.types), nil
	}
	if kept, ok := m.hashed.Load(name); ok && kept.(*metadata).size == info.Size() {
		return kept.(*metadata), nil
	}
	if info.Size() > mayHash {
		return nil, errUnhashed
	}
	sum := sha256.New()
	var from io.Reader = io.NewSectionReader(f, 0, info.Size())
	if n, err := io.Copy(sum, from); err != nil || n != info.Size() {
		return nil, fmt.Errorf("%d of %d bytes read: %w", n, info.Size(), err)
	}
	made := newFacts([]byte(name), st, m.types, time.Now())
	made.etag = `"` + hex.EncodeToString(sum.Sum(nil)[:16]) + `"`
	made.lastModified = "" // not known
	m.hashed.Store(name, made)
	return made, nil
}

// ReadAt implements io.ReaderAt for a file of an fs.FS.
func (f *regularFile) ReadAt(p []byte, offset int64) (int, error) {
	if f.from != nil {
		return f.from.ReadAt(p, offset)
	}
	n := copy(p, f.content[min(offset, int64(len(f.content))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readFS is readAt for a file of an fs.FS.
func (f *regularFile) readFS(p []byte, offset int64) (n int, err error) {
	if !f.slow {
		n, err = f.from.ReadAt(p, offset)
	} else {
		t, from := f.loop.Layer().Current(), f.from // if the thread is killed, f is another file's soon
		defer t.KeepWaiting(t.KeepWaiting(true))
		if e := t.Await(-1, func(context.Context) error {
			n, err = from.ReadAt(p, offset)
			return nil
		}); e != nil {
			return 0, e
		}
	}
	if n > 0 {
		err = nil
	}
	return n, err
}

// readFS is read for a folder of an fs.FS.
func (l *listing) readFS(m *module) error {
	all, err := fs.ReadDir(m.fsys, l.folder())
	if err != nil {
		return err
	}
	for _, d := range all {
		info, err := d.Info()
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			continue
		}
		e := entry{name: d.Name(), folder: d.IsDir(), size: info.Size(), known: true}
		if at := info.ModTime(); !at.IsZero() {
			e.modified, e.dated = at.Unix(), true
		}
		l.take(m, e)
	}
	l.cut()
	if l.readme != "" {
		f, err := m.fsys.Open(l.name + l.readme)
		if err != nil {
			return nil
		}
		defer f.Close()
		text, _ := io.ReadAll(io.LimitReader(f, maxReadme))
		l.text = appendText(nil, string(text))
	}
	return nil
}
