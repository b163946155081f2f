package settings

import (
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/lwango/lwango/internal/confpath"
)

// Include adds the keys of another text. Its lists of tables go on with those of the texts before;
// any other key stands in one text only. A key include of its own means nothing. Position and
// errors show name.
func (f *File) Include(name, text string) {
	f.names = append(f.names, name)
	var root map[string]any
	if _, err := toml.Decode(text, &root); err != nil {
		f.broken = true
		f.errs = append(f.errs, syntaxError(name, text, err))
		return
	}
	lines := scanLines(text)
	for key, value := range root {
		at := valuePath{}.child(key)
		old, there := f.root[key]
		tables, ok := listOfTables(old)
		more, also := listOfTables(value)
		if there && !(ok && also) {
			f.report(position{name, lines[at.path]}, at.name, "is set already (%s)",
				f.lines[at.path])
			continue
		}
		for path, line := range lines {
			if rest, ok := below(path, at.path); ok {
				f.mark(at.path+shifted(rest, len(tables)), position{name, line})
			}
		}
		if also {
			for i, m := range more {
				more[i] = f.expand(m, at.index(len(tables)+i)).(map[string]any)
			}
			f.root[key] = append(tables, more...)
		} else {
			f.root[key] = f.expand(value, at)
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

// reference is what stands for a variable of the environment, or for the text of a file, in whose
// path there may be variables; a dollar sign in front makes it text.
var reference = regexp.MustCompile(`\$?\$\{(?:` + name + `|file:(?:[^{}]|\$\{` + name + `\})+)\}`)

const name = `[A-Za-z_][A-Za-z0-9_]*`

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
		name := v[2 : len(v)-1]
		if path, ok := strings.CutPrefix(name, "file:"); ok {
			text, err := f.readSecret(f.expandString(path, at))
			if err != nil {
				f.errorAt(at, "%v", err)
			}
			return text
		}
		text, ok := os.LookupEnv(name)
		if !ok {
			f.errorAt(at, "the environment has no variable %s", name)
		}
		return text
	})
}

// maxSecret bounds the text of a file that a string takes: more is a mistake.
const maxSecret = 64 << 10

// Secrets returns the paths of the files that strings have taken with ${file:PATH}.
func (f *File) Secrets() []string { return f.secrets }

// readSecret returns the text of a file without the line ends behind it, which editors and echo(1)
// add. A relative path begins in the folder of the configuration.
func (f *File) readSecret(path string) (string, error) {
	path = confpath.Join(f.dir, path)
	f.secrets = append(f.secrets, path)
	read, err := confpath.Read(path, maxSecret)
	text := strings.TrimRight(string(read), "\r\n")
	if len(text) >= leastSecret {
		quoted := strconv.Quote(text)
		for _, shown := range []string{text, quoted[1 : len(quoted)-1]} {
			f.hidden = append(f.hidden, shown, "${file:"+path+"}")
		}
	}
	return text, err
}

// leastSecret is the least length of what messages do not show, in bytes. Anything shorter is no
// secret, and might be found in every message.
const leastSecret = 4

// hide takes out of a message what strings have taken from files: it may be a password, and goes to
// logs and terminals.
func (f *File) hide(msg string) string {
	if f.hidden == nil {
		return msg
	}
	return strings.NewReplacer(f.hidden...).Replace(msg)
}
