package servefiles

import (
	"errors"
	"net/http"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/names"
)

const allowed = "GET, HEAD, OPTIONS"

// serve is the handler. It looks at the request through views, so that a file in the cache costs no
// memory.
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

	path := req.PathView()[len(strings.TrimSuffix(req.Prefix(), "/")):]
	if names.Hidden(path) || m.source(path) {
		return http.StatusNotFound
	}
	var st unix.Stat_t
	var space [usualName]byte
	name, file, status := m.find(space[:0], path, &st)
	if status == isFolder {
		return RedirectToFolder(req, resp)
	}
	if status == http.StatusNotFound && m.fallback != "" {
		name = append(space[:0], m.fallback...)
		if file, status = m.open(name, &st); status == isFolder {
			status = http.StatusNotFound
		}
	}
	switch status {
	case 0:
		return m.answer(req, resp, file, m.facts.get(name, &st, m.types))
	case http.StatusServiceUnavailable:
		resp.Header().Set("Retry-After", "1")
	}
	return status
}

// isFolder is the status of find and open for a folder whose name has no slash at its end.
const isFolder = http.StatusMovedPermanently

// usualName is how long a name may be, with the index file's and the byte that ends it, to fit on
// the stack.
const usualName = 256

// find opens what a cleaned path below the route stands for, and returns the file's name, made in
// space. Status 0 means that there is an open regular file. A path of nothing is the route's own
// prefix without a slash. A slash behind a file's name, as in "/a.txt/", needs no check: the kernel
// refuses "a.txt/index.html" with ENOTDIR.
func (m *module) find(space, path []byte, st *unix.Stat_t) (name []byte, f file, status int) {
	if len(path) == 0 {
		return nil, -1, isFolder
	}
	name = append(space, path[1:]...)
	if path[len(path)-1] != '/' {
		f, status = m.open(name, st)
		return name, f, status
	}
	folder := len(name)
	for _, index := range m.index {
		name = append(name[:folder], index...)
		f, status = m.open(name, st)
		if status != http.StatusNotFound && status != isFolder {
			return name, f, status
		}
	}
	return nil, -1, http.StatusNotFound
}

// errLeadsOut is logged for a link that is not followed; the client gets 404.
var errLeadsOut = errors.New("a symbolic link that is absolute, or leads out of the folder, " +
	"is not followed without follow_symlinks")

// open opens a name below the root and reads its state. Status 0 means that there is an open
// regular file.
func (m *module) open(name []byte, st *unix.Stat_t) (file, int) {
	fd, err := m.root.open(name)
	if err != 0 {
		status := statusOf(err)
		switch {
		case err == unix.EXDEV:
			m.complain(name, errLeadsOut)
		case status != http.StatusNotFound || err == unix.ELOOP:
			m.complain(name, err)
		}
		return -1, status
	}
	f, status := file(fd), 0
	if err := unix.Fstat(fd, st); err != nil {
		m.complain(name, err)
		status = http.StatusInternalServerError
	} else if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		status = isFolder
	} else if st.Mode&unix.S_IFMT != unix.S_IFREG {
		status = http.StatusNotFound // a FIFO, a device
	}
	if status != 0 {
		f.Close()
		return -1, status
	}
	return f, 0
}
