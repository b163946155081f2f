package servefiles

import (
	"errors"
	"net/http"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/names"
	"github.com/lwango/lwango/loop"
)

const allowed = "GET, HEAD, OPTIONS"

// serve is the handler. It looks at the request through views, so that a file that is asked for
// often costs no memory.
func (m *module) serve(req *conn.Request, resp *conn.Response) int {
	switch req.Method() {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		resp.Header().Set("Allow", allowed)
		return http.StatusNoContent
	default:
		resp.Header().Set("Allow", allowed)
		return http.StatusMethodNotAllowed
	}

	path := req.Layer().PathView()[len(strings.TrimSuffix(req.Prefix(), "/")):]
	if names.Hidden(path) || m.source(path) {
		return http.StatusNotFound
	}
	var space [usualName]byte
	f, status := m.find(req.Loop(), space[:0], path)
	if status == 0 {
		return m.found(req, resp, f)
	}
	return m.notFound(req, resp, path, status)
}

// found answers with f.
func (m *module) found(req *conn.Request, resp *conn.Response, f *regularFile) int {
	if m.siblings && m.negotiated(resp, f) {
		f = m.sibling(req, resp, f)
	}
	return m.answer(req, resp, f)
}

// notFound answers for a path for which find has found no file.
func (m *module) notFound(req *conn.Request, resp *conn.Response, path []byte, status int) int {
	if status == isFolder {
		return RedirectToFolder(req, resp)
	}
	if status == http.StatusNotFound && m.listing && path[len(path)-1] == '/' {
		if status = m.list(req, resp, path); status != http.StatusNotFound {
			return status
		}
	}
	if status == http.StatusNotFound && m.fallback != "" {
		resp.Header().Vary("Accept")
	}
	if status == http.StatusNotFound && m.fallback != "" && wantsPage(req) {
		var space [usualName]byte
		f, failed := m.open(req.Loop(), append(space[:0], m.fallback...))
		switch failed {
		case 0:
			if m.cacheControl != "" { // which is not for one page under any name
				resp.Header().Set("Cache-Control", "no-cache")
			}
			return m.found(req, resp, f)
		case isFolder:
		default:
			status = failed
		}
	}
	if status == http.StatusServiceUnavailable {
		resp.Header().Set("Retry-After", "1")
	}
	return status
}

// isFolder is the status of find and open for a folder whose name has no slash at its end.
const isFolder = http.StatusMovedPermanently

// usualName is how long a name may be, with the index file's and the byte that ends it, to fit on
// the stack.
const usualName = 256

// find opens what a cleaned path below the route stands for. It makes the file's name in space.
// Status 0 means that there is an open regular file. A path of nothing is the route's own prefix
// without a slash. A slash behind a file's name, as in "/a.txt/", needs no check: the kernel
// refuses "a.txt/index.html" with ENOTDIR.
func (m *module) find(l *loop.Loop, space, path []byte) (f *regularFile, status int) {
	if len(path) == 0 {
		return nil, isFolder
	}
	name := append(space, path[1:]...)
	if path[len(path)-1] != '/' {
		return m.open(l, name)
	}
	folder := len(name)
	for _, index := range m.index {
		name = append(name[:folder], index...)
		f, status = m.open(l, name)
		if status != http.StatusNotFound && status != isFolder {
			return f, status
		}
	}
	return nil, http.StatusNotFound
}

// errLeadsOut is logged for a link that is not followed; the client gets 404.
var errLeadsOut = errors.New("a symbolic link that is absolute, or leads out of the folder, " +
	"is not followed without follow_symlinks")

// open finds a name below the root on the loop's openCache, or opens it and reads its state. Status
// 0 means that there is an open regular file. It is called on a thread of l.
func (m *module) open(l *loop.Loop, name []byte) (*regularFile, int) {
	return m.openAs(l, name, name)
}

// openAs is open of a file that the cache and its facts have under another name.
func (m *module) openAs(l *loop.Loop, key, name []byte) (*regularFile, int) {
	if m.fsys != nil {
		return m.openFS(l.Layer().Current(), string(key), string(name))
	}
	cache := m.openCache(l)
	f, cached := cache.take(key)
	if f != nil {
		return f, 0
	}
	fd, err := m.root.openOn(l, name)
	if (err == unix.EMFILE || err == unix.ENFILE) && cache.release() {
		fd, err = m.root.openOn(l, name)
	}
	if err != 0 {
		status := statusOf(err)
		switch {
		case err == unix.EXDEV:
			m.logUnreadable(name, errLeadsOut)
		case status != http.StatusNotFound || err == unix.ELOOP:
			m.logUnreadable(name, err)
		}
		return nil, status
	}
	var st unix.Stat_t
	status := 0
	if err := unix.Fstat(fd, &st); err != nil {
		m.logUnreadable(name, err)
		status = http.StatusInternalServerError
	} else if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		status = isFolder
	} else if st.Mode&unix.S_IFMT != unix.S_IFREG {
		status = http.StatusNotFound // a FIFO, a device
	}
	if status != 0 {
		unix.Close(fd)
		return nil, status
	}
	f = regularFiles.Get().(*regularFile)
	*f = regularFile{facts: m.facts.get(key, &st, m.types), fd: fd, loop: l, users: 1,
		dev: uint64(st.Dev), ino: st.Ino, changed: st.Ctim.Nano()}
	if m.openFiles > 0 && (f.facts.again(l.Time()) || cached) {
		m.cacheOpen(l, f)
	}
	return f, 0
}
