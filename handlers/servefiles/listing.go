package servefiles

import (
	"cmp"
	"io"
	"io/fs"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/names"
	"github.com/lwango/lwango/loop"
)

const (
	maxListed = 10_000   // entries of a folder that a listing shows
	maxReadme = 64 << 10 // bytes of a readme that it shows
)

// listing is what a client may know of a folder. A worker fills it; then it does not change.
type listing struct {
	listingKey
	entries []entry
	total   int  // as many there are
	full    bool // what comes behind the last of the first maxListed entries was dropped

	readme string // the name of its readme; empty: none
	text   []byte // of that, escaped for HTML

	// Under the lock of its listings.
	bytes int
	users int  // requests that send it
	fresh bool // it answers other requests, too
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
	key := listingKey{name: string(path[1:]), by: orderOf(req)}
	if err := m.isFolder(req.Loop(), key.folder()); err != nil {
		return m.notListed(path, err)
	}
	body := &listingBody{m: m, path: req.Path(), top: len(path) == 1, json: wantsJSON(req)}
	if req.Method() != http.MethodHead { // for which nothing is read
		l, err := m.listingOf(req.Thread, req.RemoteAddr().Addr(), key)
		switch {
		case err != nil:
			return m.notListed(path, err)
		case l == nil:
			resp.Header().Set("Retry-After", "1")
			return http.StatusServiceUnavailable
		}
		body.l = l
	}
	h := resp.Header()
	h.Vary("Accept")
	h.Set("Content-Type", "text/html; charset=utf-8")
	if body.json {
		h.Set("Content-Type", "application/json")
	}
	// Names are escaped; this is for a browser that sees in them what nobody has thought of.
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'")
	resp.SetBodyReader(body, -1)
	return http.StatusOK
}

func (m *module) notListed(path []byte, err error) (status int) {
	if status = statusOfFS(err); status != http.StatusNotFound {
		m.logUnreadable(path, err)
	}
	return status
}

// isFolder fails if a name below the root is no folder that may be read. It is called on a thread
// of l, which may wait.
func (m *module) isFolder(l *loop.Loop, name string) error {
	if m.fsys != nil {
		_, err := away(m, l.Layer().Current(), func() (info fs.FileInfo, err error) {
			if info, err = fs.Stat(m.fsys, name); err == nil && !info.IsDir() {
				err = unix.ENOTDIR
			}
			return info, err
		}, func(fs.FileInfo) {})
		return err
	}
	fd, errno := m.root.openOn(l, []byte(name))
	if errno != 0 {
		return errno
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	return nil
}

// folder is the name without the slash at its end.
func (k listingKey) folder() string { return cmp.Or(strings.TrimSuffix(k.name, "/"), ".") }

// read reads the folder, off the loop.
func (l *listing) read(m *module) error {
	if m.fsys != nil {
		return l.readFS(m)
	}
	fd, errno := m.root.open([]byte(l.folder()), m.root.resolve)
	if errno != 0 {
		return errno
	}
	dir := os.NewFile(uintptr(fd), l.name)
	defer dir.Close()
	for {
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
		l.entries[i].stat(fd)
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
		if m.root.stat(l.name+e.name, &st) != nil || !e.take(&st) {
			return
		}
	case !e.folder && !d.Type().IsRegular():
		return
	case l.by.needsState():
		e.stat(fd)
	}
	l.take(m, e)
}

// take takes an entry into the listing, unless its name is one that is not served, or that no
// request can have (see http1.CleanPath).
func (l *listing) take(m *module, e entry) {
	if e.name[0] == '.' && names.Hidden("/"+l.name+e.name) || controls(e.name) ||
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

// controls reports whether a name has control characters.
func controls(name string) bool {
	for i := range len(name) {
		if name[i] < ' ' || name[i] == 0x7f {
			return true
		}
	}
	return false
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

// stat asks for the state of an entry of the open folder.
func (e *entry) stat(fd int) {
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
	f := os.NewFile(uintptr(fd), l.readme)
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		text, _ := io.ReadAll(io.LimitReader(f, maxReadme))
		l.text = appendText(nil, string(text))
	}
}

// stat returns the state of what a name below the root leads to, as open would open it.
func (r *root) stat(name string, st *unix.Stat_t) error {
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
