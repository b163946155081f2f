package fastcgi

import (
	"fmt"
	"path/filepath"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/base/names"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/wire/cgi"
)

// tree is the folder with the scripts and the files beside them. It does not change once it is
// open.
type tree struct {
	root   string // as the application sees it
	params *cgi.Fixed
	files  cgi.FS
	send   conn.Handler // of files; nil: the route sends none
}

// openTree opens the folder at m.dir.
func (m *module) openTree() (*tree, error) {
	s := &m.set
	t := &tree{root: m.dir}
	real, err := filepath.EvalSymlinks(m.dir)
	if err == nil && s.ResolveRoot {
		t.root = real
	}
	if s.Root != "" {
		t.root = s.Root
	}
	t.params = m.Fix(cgi.FastCGI, t.root)
	if err == nil {
		var folder *sysio.Folder
		folder, err = sysio.OpenFolder(real)
		t.files = cgi.Beneath{Folder: folder}
	}
	if err == nil && s.FollowSymlinks {
		t.files = cgi.Following{Dir: real}
	}
	switch {
	case err == nil && m.rules.Try != cgi.TryOff:
		t.send, err = m.sender(real)
		return t, err
	case err != nil && (s.CheckFile || s.ResolveRoot):
		return nil, fmt.Errorf("cannot open the folder: %w", err)
	case err != nil:
		t.files = emptyFS{} // the folder is on the application's machine alone
	}
	return t, nil
}

// current returns the tree to look in. With resolve_root it is the one to which script_path leads
// now.
func (m *module) current() *tree {
	t := m.tree.Load()
	if !m.set.ResolveRoot {
		return t
	}
	if real, err := filepath.EvalSymlinks(m.dir); err != nil || real == t.root {
		return t // a link that is removed and made anew is missing for a moment
	}
	next, err := m.openTree()
	if err != nil {
		m.Log.Error("fastcgi: script_path leads to another folder, which cannot be used", "error",
			err)
		return t
	}
	m.tree.Store(next)
	return next
}

// sender makes the handler of the files that are no scripts. It is that of serve_files, without the
// indexes that are scripts, on this route or another one of the site. The module has decided what a
// path means before it asks this handler.
func (m *module) sender(dir string) (conn.Handler, error) {
	set := servefiles.Defaults
	set.Path, set.Index, set.FollowSymlinks = dir, nil, m.set.FollowSymlinks
	set.CacheControl = m.set.CacheControl
	for _, name := range m.set.Index {
		if !names.Source(name, m.set.SplitPath) && !names.Source(name, around.Of(m.Env).Scripts) {
			set.Index = append(set.Index, name)
		}
	}
	return servefiles.New(set, m.Env)
}

// emptyFS is the file system of a folder that is not on this machine.
type emptyFS struct{}

// Stat finds nothing.
func (emptyFS) Stat(string) (cgi.Entry, error) { return cgi.Absent, nil }
