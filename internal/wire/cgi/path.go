package cgi

import (
	"strings"

	"github.com/lwango/lwango/internal/base/names"
)

// Split cuts a path after the first segment that ends with one of the extensions. The first part
// names the script. The rest, which is empty or begins with a slash, is its path info. A path
// without a slash in front has no segments.
//
// Only whole segments count: if "/test.php.bak" were a script with the path info ".bak", PHP would
// run a file that the path does not name. Bytes are compared as they are: "/SERVER.PHP" is another
// file, and so is a name with a letter that only folds to one of the extension's. An extension that
// begins with a dot needs something before it. Another one can be a segment by itself, such as
// "fpm-status", which is no file at all.
func Split(path string, extensions []string) (script, info string, ok bool) {
	for start := 0; start < len(path) && path[0] == '/'; {
		end := len(path)
		if i := strings.IndexByte(path[start+1:], '/'); i >= 0 {
			end = start + 1 + i
		}
		if hasExtension(path[start+1:end], extensions) {
			return path[:end], path[end:], true
		}
		start = end
	}
	return path, "", false
}

func hasExtension(segment string, extensions []string) bool {
	for _, e := range extensions {
		if e != "" && strings.HasSuffix(segment, e) && (len(segment) > len(e) || e[0] != '.') {
			return true
		}
	}
	return false
}

// An Entry is the kind of file that a name stands for.
type Entry uint8

// Values of Entry. A file that is out of reach is Absent, too, as one behind a link out of the
// folder.
const (
	Absent Entry = iota
	Regular
	Folder
	Special // a device, a socket: neither to be sent nor to be run
)

// FS tells what a folder holds. Names have no slash at either end and no dot segments. If the FS
// cannot know (no permission, no descriptors), it returns the error.
type FS interface {
	Stat(name string) (Entry, error)
}

// Try is the meaning of a path that names no script.
type Try uint8

// Values of Try.
const (
	TryOff      Try = iota // nothing: the folder has scripts and nothing else
	TryNotFound            // a file, or nothing
	TryFront               // a file, or else the front controller
)

// Rules give the meaning of a path. They come from the configuration, and do not change.
type Rules struct {
	Extensions []string // of scripts
	Index      []string // names to look for in a folder
	Front      Front    // the front controller
	Try        Try

	// Unchecked: scripts are not on this machine, and all of them are taken to exist. Files are
	// not.
	Unchecked bool
	// FrontMissing, with TryFront: a script that does not exist means the front controller, and not
	// nothing.
	FrontMissing bool
	// NoScripts: no script is run, and only files are sent.
	NoScripts bool
	// Scripts are the names of those that may run. Others are taken not to exist, and are not sent
	// either. The front controller may run where it takes the place of another path.
	Scripts Globs
}

// Kind is what to do for a path.
type Kind uint8

// Values of Kind.
const (
	NotFound   Kind = iota
	BadRequest      // the path has a control character, or is not a clean one
	Script          // run Name with Info
	Static          // send the file Name
	Redirect        // to the same path with a slash at its end
)

// A Target is what a path means. Name begins with a slash and is below the root.
type Target struct {
	Kind  Kind
	Name  string
	Info  string
	Query string // in front of the request's own
}

// Resolve returns the meaning of a path, which is below the route and has the form that
// http1.CleanPath returns. An error comes from fsys.
//
// A script has to exist before PHP gets its name. PHP "fixes" the name of a script that is missing:
// it cuts segments off the end, and runs what it then finds. So "/uploads/evil.jpg/x.php" ran the
// picture. A script that is hidden, or lies in a hidden folder (a hook below .git), is not meant
// for the public, and is not found. A folder without a slash at its end is redirected only if it
// has an index.
func (r *Rules) Resolve(fsys FS, path string) (Target, error) {
	if !valid(path) {
		return Target{Kind: BadRequest}, nil
	}
	if script, info, ok := Split(path, r.Extensions); ok {
		if r.NoScripts || names.Hidden(script) {
			return Target{}, nil
		}
		var exists bool
		var err error
		if r.Scripts.Match(script) {
			exists, err = r.exists(fsys, script)
		}
		switch {
		case exists:
			return Target{Kind: Script, Name: script, Info: info}, nil
		case err == nil && r.FrontMissing:
			return r.front(fsys, path)
		}
		return Target{}, err
	}
	name := strings.Trim(path, "/")
	entry := Folder // the root
	if name != "" {
		var err error
		if entry, err = fsys.Stat(name); err != nil {
			return Target{}, err
		}
	}
	slash := path[len(path)-1] == '/'
	switch {
	case entry == Folder, entry == Absent && slash && r.Unchecked && r.Try != TryFront:
		t, err := r.index(fsys, path, slash)
		if t.Kind != NotFound || err != nil {
			return t, err
		}
	case entry == Regular && !slash:
		if r.Try == TryOff || names.Source(name, r.Extensions) {
			return Target{}, nil
		}
		return Target{Kind: Static, Name: path}, nil
	}
	return r.front(fsys, path)
}

// valid reports whether a path has the form that http1.CleanPath returns, as far as that matters
// here. It checks again, because a line end has made PHP-FPM write outside its buffer
// (CVE-2019-11043), a NUL ends a name early in C, and for a script that is on another machine no
// file system here says that it is beyond the root.
func valid(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c < 0x20 || c == 0x7f:
			return false
		case c == '/' && i+1 < len(path) && path[i+1] == '.':
			s := path[i+1:]
			if j := strings.IndexByte(s, '/'); j >= 0 {
				s = s[:j]
			}
			if s == "." || s == ".." {
				return false
			}
		case c == '/' && i+1 < len(path) && path[i+1] == '/':
			return false
		}
	}
	return true
}

// index looks for an index in the folder at path.
func (r *Rules) index(fsys FS, path string, slash bool) (Target, error) {
	if names.Hidden(path) {
		return Target{}, nil
	}
	for _, name := range r.Index {
		t := Target{Kind: Static}
		if !slash {
			t.Name = path + "/" + name
		} else {
			t.Name = path + name
		}
		if hasExtension(name, r.Extensions) && !r.NoScripts && r.Scripts.Match(t.Name) {
			t.Kind = Script
		} else if r.Try == TryOff || names.Source(name, r.Extensions) {
			continue
		}
		// A script on another machine is taken to exist, unless the front controller would take its
		// place.
		if t.Kind == Static || !r.Unchecked || r.Try == TryFront {
			switch entry, err := fsys.Stat(t.Name[1:]); {
			case err != nil:
				return Target{}, err
			case entry != Regular:
				continue
			}
		}
		if !slash {
			return Target{Kind: Redirect}, nil
		}
		return t, nil
	}
	return Target{}, nil
}

// front returns the front controller, for a path without another meaning.
func (r *Rules) front(fsys FS, path string) (Target, error) {
	if r.Try != TryFront {
		return Target{}, nil
	}
	f := &r.Front
	if exists, err := r.exists(fsys, f.Script); err != nil || !exists {
		return Target{}, err
	}
	return Target{Kind: Script, Name: f.Script, Info: f.Info(path), Query: f.Query(path)}, nil
}

func (r *Rules) exists(fsys FS, script string) (bool, error) {
	if r.Unchecked {
		return true, nil
	}
	entry, err := fsys.Stat(script[1:])
	return entry == Regular, err
}
