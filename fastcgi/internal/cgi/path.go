package cgi

import (
	"strings"

	"github.com/lwango/lwango/internal/names"
)

// Split cuts a path behind the first segment that ends with one of the extensions. What is before names the script,
// the rest, which is empty or begins with a slash, is its path info. A path without a slash in front has no segments.
//
// Only whole segments are looked at: "/test.php.bak" is no script with the path info ".bak", which would run a file
// that the path does not name. Bytes are compared as they are: "/SERVER.PHP" is another file, and so is one with a
// letter that merely folds to one of the extension's. Of an extension that begins with a dot, something has to
// stand before it; one that does not can be a segment by itself, as "fpm-status" is, which is no file at all.
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

// An Entry is what a name stands for.
type Entry uint8

// Values of Entry. Absent is also what is out of reach: beyond a link that leads out of the folder, say.
const (
	Absent Entry = iota
	Regular
	Folder
	Special // a device, a socket: neither to be sent nor to be run
)

// FS tells what there is below a folder. Names have no slash at either end and no dot segments. Of what cannot be
// known (no permission, no descriptors) it gives the error.
type FS interface {
	Stat(name string) (Entry, error)
}

// Try is what becomes of a path that names no script.
type Try uint8

// Values of Try.
const (
	TryOff      Try = iota // it is not found: the folder has scripts and nothing else
	TryNotFound            // it is a file, or not found
	TryFront               // it is a file, or left to the front controller
)

// Rules say what a path means. They are the configuration's, and do not change.
type Rules struct {
	Extensions []string // of scripts
	Index      []string // names looked for in a folder
	Front      string   // the front controller, such as "/index.php"
	Try        Try

	// Unchecked: scripts are not on this machine, and taken to exist. Files are looked for nevertheless.
	Unchecked bool
	// FrontMissing leaves a script that does not exist to the front controller, with TryFront, instead of not
	// finding it.
	FrontMissing bool
	// NoScripts: no script is run. There are files, and nothing else.
	NoScripts bool
}

// Kind is what to do.
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
	Kind Kind
	Name string
	Info string
}

// Resolve says what path, below the route and as http1.CleanPath gives it, means. An error comes
// from fsys.
//
// A script is looked for before it is named to anybody. PHP "fixes" names that are none by cutting
// segments off their end, and runs what it then finds: "/uploads/evil.jpg/x.php" ran the picture.
// One that is hidden, or lies in a hidden folder (a hook below .git), is not meant for the public,
// and is not found. A folder without a slash at its end is redirected only if it has an index.
func (r *Rules) Resolve(fsys FS, path string) (Target, error) {
	if !valid(path) {
		return Target{Kind: BadRequest}, nil
	}
	if script, info, ok := Split(path, r.Extensions); ok {
		if r.NoScripts || names.Hidden(script) {
			return Target{}, nil
		}
		exists, err := r.exists(fsys, script)
		switch {
		case exists:
			return Target{Script, script, info}, nil
		case err == nil && r.FrontMissing:
			return r.front(fsys)
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
	return r.front(fsys)
}

// valid reports whether a path is one that http1.CleanPath gives, as far as it matters here. It is looked at again
// since a line end has made PHP-FPM write outside its buffer (CVE-2019-11043), a NUL ends a name early in C, and of
// a script that is not on this machine no file system says that it is beyond the root.
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
		if hasExtension(name, r.Extensions) && !r.NoScripts {
			t.Kind = Script
		} else if r.Try == TryOff || names.Source(name, r.Extensions) {
			continue
		}
		// A script that cannot be looked for is taken to be there, unless the front controller would take its place.
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

// front is the front controller, for a path that means nothing else.
func (r *Rules) front(fsys FS) (Target, error) {
	if r.Try != TryFront {
		return Target{}, nil
	}
	if exists, err := r.exists(fsys, r.Front); err != nil || !exists {
		return Target{}, err
	}
	return Target{Kind: Script, Name: r.Front}, nil
}

func (r *Rules) exists(fsys FS, script string) (bool, error) {
	if r.Unchecked {
		return true, nil
	}
	entry, err := fsys.Stat(script[1:])
	return entry == Regular, err
}
