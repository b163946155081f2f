package settings

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/confpath"
)

// Include adds the keys of another text. Its lists of tables go on with those of the texts before,
// and tables are merged; any other key may stand in several texts if its value is the same in all.
// A key include of its own means nothing. Position and errors show name.
func (f *File) Include(name, text string) {
	f.names = append(f.names, name)
	var root map[string]any
	if _, err := toml.Decode(text, &root); err != nil {
		f.broken = true
		f.errs = append(f.errs, syntaxError(name, text, err))
		return
	}
	included{f, name, scanLines(text)}.merge(f.root, root, valuePath{})
}

// included is a text that is being included.
type included struct {
	*File
	name  string
	lines lineMap
}

// merge adds the keys of a table, which is more, to those of the texts before.
func (f included) merge(all, more map[string]any, at valuePath) {
	top := at.path == ""
	for key, value := range more {
		at := at.child(key)
		old, there := all[key]
		tables, ok := listOfTables(old)
		others, also := listOfTables(value)
		table, isTable := old.(map[string]any)
		other, otherIs := value.(map[string]any)
		switch {
		case there && isTable && otherIs && !(top && slices.Contains(f.lists, key)):
			f.merge(table, other, at)
		case there && top && ok && also:
			f.markAll(at, len(tables))
			for i, m := range others {
				others[i] = f.expand(m, at.index(len(tables)+i)).(map[string]any)
			}
			all[key] = append(tables, others...)
		case there:
			if !reflect.DeepEqual(f.expand(value, at), old) {
				f.report(position{f.name, f.lines[at.path]}, at.name, at.path,
					"is set already, to another value (%s)", f.File.lines[at.path])
			}
		case also:
			f.markAll(at, 0)
			for i, m := range others {
				others[i] = f.expand(m, at.index(i)).(map[string]any)
			}
			all[key] = others
		default:
			f.markAll(at, 0)
			all[key] = f.expand(value, at)
		}
	}
}

// markAll notes the lines of a key and of what is below it. If it is a list of tables, so many of
// the texts before come first.
func (f included) markAll(at valuePath, before int) {
	for path, line := range f.lines {
		if rest, ok := below(path, at.path); ok {
			f.mark(at.path+shifted(rest, before), position{f.name, line})
		}
	}
}

// listOfTables returns a list of tables, which may be written with [[ ]] or as a list.
func listOfTables(value any) (tables []map[string]any, ok bool) {
	if tables, ok = value.([]map[string]any); ok {
		return tables, true
	}
	items, _ := value.([]any)
	for _, item := range items {
		m, ok := item.(map[string]any)
		if !ok {
			return nil, false
		}
		tables = append(tables, m)
	}
	return tables, len(items) > 0
}

// below returns what path has behind that of a key of the top, and whether it is the key or a part
// of its value.
func below(path, key string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, key)
	return rest, ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// shifted adds n to the index that a path begins with, if it does.
func shifted(path string, n int) string {
	if n == 0 || path == "" || path[0] != '[' {
		return path
	}
	index, rest, _ := strings.Cut(path[1:], "]")
	return indexPath("", must(strconv.Atoi(index))+n) + rest
}

func (f *File) mark(path string, at position) {
	if _, ok := f.lines[path]; !ok {
		f.lines[path] = at
	}
}

// reference is what stands for a variable of the environment, perhaps with a default, or for the
// text of a file, in whose path there may be variables; a dollar sign in front makes it text. Any
// other "${" is one, too, and refused: to most who write it, it stands for something.
var reference = regexp.MustCompile(`\$?\$\{(?:(?:file:(?:[^{}]|\$\{` + variable +
	`\})+|[^{}]*)\})?`)

const variable = name + `(?::-[^{}]*)?`
const name = `[A-Za-z_][A-Za-z0-9_]*`

var aVariable = regexp.MustCompile(`^` + variable + `$`)

// expand puts variables of the environment and texts of files into the strings of a value.
func (f *File) expand(value any, at valuePath) any {
	switch value := value.(type) {
	case string:
		if reference.MatchString(value) {
			f.written[at.path] = value
		}
		return f.expandString(value, at)
	case map[string]any:
		for key, item := range value {
			value[key] = f.expand(item, at.child(key))
		}
	case []map[string]any:
		for i, item := range value {
			f.expand(item, at.index(i))
		}
	case []any:
		for i, item := range value {
			value[i] = f.expand(item, at.index(i))
		}
	}
	return value
}

func (f *File) expandString(s string, at valuePath) string {
	return reference.ReplaceAllStringFunc(s, func(v string) string {
		if v[1] == '$' {
			return v[1:]
		}
		inner := strings.TrimSuffix(v[2:], "}")
		if path, ok := strings.CutPrefix(inner, "file:"); ok && path != "" {
			text, err := f.readSecret(f.expandString(path, at), at)
			if err != nil {
				f.errorAt(at, "%v", err)
			}
			return text
		}
		if !aVariable.MatchString(inner) {
			f.errorAt(at, "%s is no reference: expected ${NAME}, ${NAME:-DEFAULT} or ${file:PATH}; for the "+
				"text itself write $%s", v, v)
			return v
		}
		name, otherwise, ok := strings.Cut(inner, ":-")
		text, set := os.LookupEnv(name)
		switch {
		case ok && text == "": // as in a shell
			return otherwise
		case !set:
			f.errorAt(at, "the environment has no variable %s", name)
		}
		return text
	})
}

// maxSecret bounds the text of a file that a string takes: more is a mistake.
const maxSecret = 64 << 10

// Secrets returns the paths of the files that strings have taken with ${file:PATH}.
func (f *File) Secrets() []string { return f.secrets }

// secret is what a string has taken from a file.
type secret struct {
	at    string // the path of the string
	text  string
	shown string // what messages have in its place
}

// readSecret returns the text of a file without the line ends after it, which editors and echo(1)
// add, for the string at a path. A relative path begins in the folder of the configuration.
func (f *File) readSecret(path string, at valuePath) (string, error) {
	path = confpath.Join(f.dir, path)
	f.secrets = append(f.secrets, path)
	read, err := confpath.Read(path, maxSecret)
	text := strings.TrimRight(string(read), "\r\n")
	if len(text) >= leastSecret {
		f.hidden = append(f.hidden, secret{at.path, text, "${file:" + path + "}"})
	}
	return text, err
}

// leastSecret is the least length of what messages do not show, in bytes. Anything shorter is no
// secret, and might be found in every message.
const leastSecret = 4

// hide takes out of a message what strings have taken from files: it may be a password, and goes to
// logs and terminals. One that may be about such a string, since that is at the path about or below
// it, has no part of the text either, such as what stands between two colons.
func (f *File) hide(about, msg string) string {
	for _, s := range f.hidden {
		quoted := strconv.Quote(s.text)
		msg = strings.NewReplacer(s.text, s.shown, quoted[1:len(quoted)-1], s.shown).Replace(msg)
	}
	for _, s := range f.hidden {
		if _, ok := below(s.at, about); ok || about == "" {
			msg = withoutParts(msg, s)
		}
	}
	return msg
}

// withoutParts puts an ellipsis in the place of all in msg that is a part of a secret, whatever the
// case of its letters, but for the names that stand for secrets.
func withoutParts(msg string, s secret) string {
	secret := ascii.ToLower(s.text)
	var out strings.Builder
	for msg != "" {
		if rest, ok := strings.CutPrefix(msg, s.shown); ok {
			out.WriteString(s.shown)
			msg = rest
			continue
		}
		n := 0
		for n < len(msg) && strings.Contains(secret, ascii.ToLower(msg[:n+1])) {
			n++
		}
		if n >= leastSecret {
			out.WriteString("...")
			msg = msg[n:]
			continue
		}
		out.WriteByte(msg[0])
		msg = msg[1:]
	}
	return out.String()
}
