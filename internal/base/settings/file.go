package settings

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// File is a parsed text, with those that it includes, and the errors found in them so far.
type File struct {
	names []string // the file's own, and those that were included
	dir   string   // in which relative paths begin
	root  map[string]any
	lines map[string]position // by path
	errs  Errors
	top   []string // see Top

	places map[string][]string // of keys, the tables at the top that have them
	lists  []string            // keys of the whole file that have lists of tables, see Top

	secrets []string // files that strings have taken
	hidden  []secret // what was in them

	written map[string]string         // strings with references, by path, as the text has them
	assumed map[string]map[string]any // defaults of keys that are not there, by path of the table

	inherited map[string]bool // paths of values that Inherit has put there

	broken  bool
	refused []string // paths of values that could not be decoded
}

// position is where a key or an element is first written.
type position struct {
	file string
	line int
}

func (p position) String() string { return fmt.Sprintf("%s, line %d", p.file, p.line) }

// Parse reads text, and puts variables of the environment and files into its strings (see Include
// for further text). Relative paths begin in dir; name is only for messages. Err returns syntax
// errors like all others. Broken tells of these.
func Parse(name, dir, text string) *File {
	f := &File{dir: dir, root: map[string]any{}, lines: map[string]position{},
		written: map[string]string{}, assumed: map[string]map[string]any{},
		inherited: map[string]bool{}}
	f.Include(name, text)
	return f
}

// syntaxError keeps the decoder's explanation and takes the line from its Position:
// ParseError.Line, which its Error method does not use either, holds a length for some kinds of
// error.
func syntaxError(name, text string, err error) *Error {
	var pe toml.ParseError
	if !errors.As(err, &pe) {
		return &Error{File: name, Msg: strings.TrimPrefix(err.Error(), "toml: ")}
	}
	// At the end of the text the position can be on the line after the last.
	line := max(1, min(pe.Position.Line, strings.Count(strings.TrimSuffix(text, "\n"), "\n")+1))
	return &Error{File: name, Line: line, Msg: pe.Message}
}

// Broken reports whether a text was not TOML at all. Then none of its keys is there, and the caller
// must not report them as missing.
func (f *File) Broken() bool { return f.broken }

// Root returns the table that is the whole file.
func (f *File) Root() Table { return Table{file: f, values: f.root} }

// Err returns nil, or Errors in the order of files and lines.
func (f *File) Err() error {
	if len(f.errs) == 0 {
		return nil
	}
	return f.errs.sorted(f.names)
}

// Table is one table of a file and knows where it stands. A struct gets the table that it was
// decoded from in a field of this type tagged `toml:",table"`, for checks that the tags cannot
// express; and the keys that are not its own in one tagged `toml:",rest"`, to decode them into
// another struct later.
type Table struct {
	file   *File
	values map[string]any
	at     valuePath
	beside []string // keys that belong to the struct which left this rest: known here too
}

// valuePath names a value twice: path, with the indexes of lists, finds the line; a message shows
// name.
type valuePath struct{ path, name string }

func (p valuePath) child(key string) valuePath {
	return valuePath{childPath(p.path, key), childPath(p.name, key)}
}

func (p valuePath) index(i int) valuePath { return valuePath{indexPath(p.path, i), p.name} }

// Has reports whether the table has the key, whatever its value.
func (t Table) Has(key string) bool {
	_, ok := t.values[key]
	return ok
}

// Sub returns the table that is the value of key; an empty one if there is none.
func (t Table) Sub(key string) Table {
	values, _ := t.values[key].(map[string]any)
	return Table{file: t.file, values: values, at: t.at.child(key)}
}

// Position says where key stands, for people: "line 7", or, in a file that was included, "a.conf,
// line 7". For a key that is absent, and for an empty one, that is the position of the table. A
// table that no line has is named by its file.
func (t Table) Position(key string) string {
	at := t.position(key)
	if at.line == 0 {
		return t.file.names[0]
	}
	if at.file == "" || at.file == t.file.names[0] {
		return fmt.Sprintf("line %d", at.line)
	}
	return at.String()
}

// File names the text that has the table.
func (t Table) File() string { return cmp.Or(t.position("").file, t.file.names[0]) }

// Place is Position with the name of the file in any case.
func (t Table) Place(key string) string {
	at := t.position(key)
	at.file = cmp.Or(at.file, t.file.names[0])
	return at.String()
}

func (t Table) position(key string) position {
	if at, ok := t.file.lines[childPath(t.at.path, key)]; ok && key != "" {
		return at
	}
	return t.file.lines[t.at.path]
}

// Errorf reports an error of the given key of this table; the key may be absent, and empty for the
// table itself. If the value, or a part of it, or what it is a part of, was refused before, Errorf
// adds nothing to that report.
func (t Table) Errorf(key, format string, args ...any) {
	if t.file == nil {
		panic("settings: Errorf on a Table that came from no file")
	}
	at := t.at
	if key != "" {
		at = at.child(key)
	}
	if t.file.follows(at) {
		return
	}
	t.file.report(t.position(key), at.name, t.at.path, format, args...)
}

// Wrong says of err, which has turned up after the file was read, which key it is about. errors.Is
// still finds what err is. For a table that came from no file, Wrong returns err itself.
func (t Table) Wrong(key string, err error) error {
	if t.file == nil {
		return err
	}
	at := t.position(key)
	return &located{&Error{File: cmp.Or(at.file, t.file.names[0]), Line: at.line,
		Key: t.at.child(key).name,
		Msg: t.file.hide(t.at.path, err.Error())}, err}
}

// follows reports whether an error at a path follows from a value that was refused before: that of
// the value itself, of something around it, or of one of its elements.
func (f *File) follows(at valuePath) bool {
	return slices.ContainsFunc(f.refused, func(path string) bool {
		if _, ok := below(at.path, path); ok {
			return true
		}
		element, ok := below(path, at.path)
		return ok && element != "" && element[0] == '[' && at.path != ""
	})
}

// Refused reports whether one of the table's keys was refused.
func (t Table) Refused() bool {
	return slices.ContainsFunc(t.file.refused, func(path string) bool {
		return strings.HasPrefix(path, t.at.path+".")
	})
}

// errorAt reports, once, that the value at a path inside this table's file cannot be decoded.
func (f *File) errorAt(at valuePath, format string, args ...any) {
	if slices.Contains(f.refused, at.path) {
		return
	}
	f.refused = append(f.refused, at.path)
	f.report(f.lines[at.path], at.name, at.path, format, args...)
}

// report notes an error of a key; what it says may be of the value at the path about.
func (f *File) report(at position, key, about, format string, args ...any) {
	f.errs = append(f.errs, &Error{File: cmp.Or(at.file, f.names[0]), // without: it is missing
		Line: at.line, Key: key, Msg: f.hide(about, fmt.Sprintf(format, args...))})
}
