package servefiles

import (
	"cmp"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/names"
)

const (
	maxListed   = 10_000   // entries of a folder that a listing shows
	maxReadme   = 64 << 10 // bytes of a readme that it shows
	maxListings = 16       // that a route makes or sends at a time: each holds a megabyte, or three
)

// listing is what a client may know of a folder. A worker fills it.
type listing struct {
	name    string // below the root, with a slash at its end; empty for the root
	by      order
	entries []entry
	total   int  // as many there are
	full    bool // what comes behind the last of the first maxListed entries was dropped

	readme string // the name of its readme; empty: none
	text   string // of that
}

// entry is a file or a folder in a listing.
type entry struct {
	name     string
	folder   bool
	known    bool // the size is
	dated    bool // the date is
	size     int64
	modified int64 // Unix seconds
}

// order is how a listing is sorted, as the query says it: by name, size or date, with a minus for
// the other direction. Folders come before files.
type order string

func orderOf(req *conn.Request) order {
	by := order(req.Query().Get("sort"))
	switch by {
	case "-name", "size", "-size", "date", "-date":
		return by
	}
	return "name"
}

// needsState reports whether the entries' state decides about their order.
func (o order) needsState() bool { return o != "name" && o != "-name" }

func (o order) compare(a, b entry) int {
	if a.folder != b.folder {
		if a.folder {
			return -1
		}
		return 1
	}
	by, down := strings.CutPrefix(string(o), "-")
	c := 0
	switch by {
	case "size":
		c = cmp.Compare(a.size, b.size)
	case "date":
		c = cmp.Compare(a.modified, b.modified)
	}
	if c = cmp.Or(c, strings.Compare(a.name, b.name)); down {
		return -c
	}
	return c
}

// list answers with what lies in a folder, whose path below the route ends with a slash. Status 404
// means that there is no such folder.
func (m *module) list(req *conn.Request, resp *conn.Response, path []byte) int {
	if m.listings.Add(1) > maxListings {
		m.listings.Add(-1)
		resp.Header().Set("Retry-After", "1")
		return http.StatusServiceUnavailable
	}
	l := &listing{name: string(path[1:]), by: orderOf(req)}
	body := &listingBody{m: m, l: l, path: req.Path(), top: len(path) == 1, json: wantsJSON(req)}
	sent := false
	defer func() { // also if the thread is killed
		if !sent {
			_ = body.Close()
		}
	}()

	var err error
	empty := req.Method() == http.MethodHead
	defer req.Thread.KeepWaiting(req.Thread.KeepWaiting(true)) // see elsewhere
	if e := req.Thread.Await(func() error {
		m.reading <- struct{}{} // one at a time: workers that compute hold up the loops
		defer func() { <-m.reading }()
		err = l.read(m, empty)
		return nil
	}, -1); e != nil {
		return http.StatusInternalServerError
	}
	if err != nil {
		status := statusOfFS(err)
		if status != http.StatusNotFound {
			m.complain(path, err)
		}
		return status
	}
	h := resp.Header()
	h.Add("Vary", "Accept")
	h.Set("Content-Type", "text/html; charset=utf-8")
	if body.json {
		h.Set("Content-Type", "application/json")
	}
	// Names are escaped; this is for a browser that sees in them what nobody has thought of.
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	sent = true
	resp.SetBodyReader(body, -1)
	return http.StatusOK
}

// read reads the folder, off the loop. empty: only whether there is one.
func (l *listing) read(m *module, empty bool) error {
	if m.fsys != nil {
		return l.readFS(m, empty)
	}
	fd, errno := m.root.open([]byte(cmp.Or(strings.TrimSuffix(l.name, "/"), ".")), m.root.resolve)
	if errno != 0 {
		return errno
	}
	dir := os.NewFile(uintptr(fd), l.name)
	defer dir.Close()
	if info, err := dir.Stat(); err != nil || !info.IsDir() {
		return unix.ENOTDIR
	}
	for !empty {
		batch, err := dir.ReadDir(512)
		for _, d := range batch {
			l.add(m, fd, d)
		}
		// What comes last in the order is dropped now and then, so the size of a folder is no limit.
		if len(l.entries) > 2*maxListed {
			l.cut()
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	l.cut()
	for i := range l.entries {
		l.entries[i].look(fd)
	}
	l.readText(m)
	return nil
}

// add takes a file or a folder of the open folder into the listing, unless it cannot be served.
func (l *listing) add(m *module, fd int, d os.DirEntry) {
	e := entry{name: d.Name(), folder: d.IsDir()}
	switch {
	case d.Type() == os.ModeSymlink:
		var st unix.Stat_t
		if m.root.look(l.name+e.name, &st) != nil || !e.take(&st) {
			return
		}
	case !e.folder && !d.Type().IsRegular():
		return
	case l.by.needsState():
		e.look(fd)
	}
	l.take(m, e)
}

// take takes an entry into the listing, unless its name is one that is not served.
func (l *listing) take(m *module, e entry) {
	if e.name[0] == '.' && names.Hidden("/"+l.name+e.name) ||
		len(m.scripts) > 0 && m.source([]byte(e.name)) {
		return
	}
	if len(e.name) <= len("readme.txt") && e.name[0]|' ' == 'r' && !e.folder {
		l.noteReadme(e.name)
	}
	if l.total++; !l.full || l.by.compare(e, l.entries[maxListed-1]) < 0 {
		l.entries = append(l.entries, e)
	}
}

// noteReadme notes a name that may be the readme's.
func (l *listing) noteReadme(name string) {
	i := slices.Index(readmes, strings.ToLower(name))
	if i >= 0 && (l.readme == "" || i < slices.Index(readmes, strings.ToLower(l.readme))) {
		l.readme = name
	}
}

// readmes are the names of texts that are shown below a listing, the first before the others.
var readmes = []string{"readme", "readme.txt", "readme.md"}

func (l *listing) cut() {
	slices.SortFunc(l.entries, l.by.compare)
	if len(l.entries) > maxListed {
		l.full = true
		clear(l.entries[maxListed:])
		l.entries = l.entries[:maxListed]
	}
}

// look asks for the state of an entry of the open folder.
func (e *entry) look(fd int) {
	var st unix.Stat_t
	if !e.known && unix.Fstatat(fd, e.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		e.take(&st)
	}
}

// take notes a state, and reports whether it is one of a file or a folder.
func (e *entry) take(st *unix.Stat_t) bool {
	e.folder = st.Mode&unix.S_IFMT == unix.S_IFDIR
	e.known, e.dated, e.size, e.modified = true, true, st.Size, st.Mtim.Sec
	return e.folder || st.Mode&unix.S_IFMT == unix.S_IFREG
}

// readText reads the readme. If that cannot be done, there is none.
func (l *listing) readText(m *module) {
	if l.readme == "" {
		return
	}
	fd, errno := m.root.open([]byte(l.name+l.readme), m.root.resolve)
	if errno != 0 {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	text := make([]byte, min(st.Size, maxReadme))
	n := 0
	for n < len(text) {
		k, err := readOnce(text[n:], func() (int, error) {
			return unix.Pread(fd, text[n:], int64(n))
		})
		if err != nil {
			break
		}
		n += k
	}
	l.text = string(text[:n])
}

// look returns the state of what a name below the root leads to, as open would open it.
func (r *root) look(name string, st *unix.Stat_t) error {
	defer runtime.KeepAlive(r)
	switch {
	case !r.refused:
		fd, err := unix.Openat2(r.fd, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
			Resolve: r.resolve})
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Fstat(fd, st)
	case r.beneath == nil:
		return unix.Fstatat(r.fd, name, st, 0)
	}
	info, err := r.beneath.Stat(name)
	if err != nil {
		return err
	}
	s := info.Sys().(*syscall.Stat_t)
	st.Mode, st.Size, st.Mtim.Sec = s.Mode, s.Size, s.Mtim.Sec
	return nil
}
