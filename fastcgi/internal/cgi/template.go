package cgi

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// template is text of the configuration with placeholders for parts of a request, such as {path}.
// It does not change.
type template []piece

// piece is literal text or, where that is empty, a placeholder.
type piece struct{ text, name string }

// ofParams are the placeholders of parameters, ofFront those of the front controller.
var (
	ofParams = []string{"path", "rest", "uri", "query", "host", "scheme", "address", "id"}
	ofFront  = []string{"path", "rest"}
)

// word is what may be the name of a placeholder.
var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// CheckParam says what is wrong with the value of a parameter.
func CheckParam(value string) error {
	_, err := parse(value, ofParams)
	return err
}

// parse reads a text with placeholders of these names. A brace that does not enclose a word stands
// for itself: the value of a parameter may be JSON.
func parse(text string, known []string) (t template, err error) {
	literal := 0 // where the text begins that is not in t yet
	for i := 0; i < len(text); i++ {
		if text[i] != '{' {
			continue
		}
		name, _, closed := strings.Cut(text[i+1:], "}")
		if !closed || !word.MatchString(name) {
			continue
		}
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%q: unknown placeholder {%s} (known: {%s})", text, name,
				strings.Join(known, "}, {"))
		}
		if literal < i {
			t = append(t, piece{text: text[literal:i]})
		}
		t = append(t, piece{name: name})
		i += len(name) + 1
		literal = i + 1
	}
	if literal < len(text) || text == "" {
		t = append(t, piece{text: text[literal:]})
	}
	return t, nil
}

// literal reports whether t has no placeholders.
func (t template) literal() bool {
	return !slices.ContainsFunc(t, func(p piece) bool { return p.name != "" })
}

// appendFor appends the value for r as it is: nothing is escaped in a parameter.
func (t template) appendFor(b []byte, r *Request) []byte {
	for _, p := range t {
		switch p.name {
		case "":
			b = append(b, p.text...)
		case "path":
			b = append(b, r.Path...)
		case "rest":
			b = append(b, strings.TrimPrefix(r.Path, "/")...)
		case "uri":
			path, query := r.uri()
			b = append(append(b, path...), query...)
		case "query":
			if r.Query != "" {
				b = append(append(b, '?'), r.Query...)
			}
		case "host":
			name, _ := splitHost(r.Host)
			b = append(b, name...)
		case "scheme":
			b = append(b, r.scheme()...)
		case "address":
			b = r.appendRemote(b)
		case "id":
			b = strconv.AppendUint(b, r.ID, 10)
		}
	}
	return b
}

// A Front is a front controller.
type Front struct {
	Script string
	info   template // empty: no path info
	query  template // empty: the request's own is all
}

// foreign is a placeholder of other servers. Unrefused, the script would get it as it stands.
var foreign = regexp.MustCompile(`\$\w+`)

// ParseFront reads a front controller: a script, perhaps with path info, perhaps with a query. The
// error says what is wrong with text.
func ParseFront(text string, extensions []string) (f Front, err error) {
	if name := foreign.FindString(text); name != "" {
		return f, fmt.Errorf("%q: unknown placeholder %s (known: {%s})", text, name,
			strings.Join(ofFront, "}, {"))
	}
	path, query, asks := strings.Cut(text, "?")
	literal, _, _ := strings.Cut(path, "{")
	f.Script = path
	if script, info, ok := Split(literal, extensions); ok && info+path[len(literal):] != "" {
		f.Script = script
		if f.info, err = parse(path[len(script):], ofFront); err != nil {
			return f, err
		}
	}
	if asks {
		if f.query, err = parse(query, ofFront); err != nil {
			return f, err
		}
	}
	switch info := f.Info("/x"); {
	case strings.HasSuffix(f.Script, "/") || strings.ContainsAny(f.Script, "{}") || !valid(f.Script):
	case info != "" && (!valid(info) || strings.ContainsAny(info, "{}")):
	case asks && strings.ContainsAny(f.Query("/x"), "{}# \x00\r\n"):
	default:
		return f, nil
	}
	return f, fmt.Errorf(`expected a script below script_path, such as "/index.php", `+
		`"/index.php{path}" or "/index.php?q={path}", not %q`, text)
}

// Info returns the path info for a path that is no file.
func (f *Front) Info(path string) string {
	if len(f.info) == 0 {
		return ""
	}
	var b strings.Builder
	for _, p := range f.info {
		switch text := p.of(path); {
		case p.name != "" && strings.HasSuffix(b.String(), "/"):
			b.WriteString(strings.TrimPrefix(text, "/")) // there are no empty segments
		default:
			b.WriteString(text)
		}
	}
	return b.String()
}

// Query returns the front controller's own query for such a path. What it takes from the path is
// escaped, so that no path can add a variable.
func (f *Front) Query(path string) string {
	if len(f.query) == 0 {
		return ""
	}
	var b strings.Builder
	for _, p := range f.query {
		if p.name == "" {
			b.WriteString(p.text)
			continue
		}
		escape(&b, p.of(path))
	}
	return b.String()
}

// of returns what p stands for, as it is.
func (p piece) of(path string) string {
	switch p.name {
	case "path":
		return path
	case "rest":
		return strings.TrimPrefix(path, "/")
	}
	return p.text
}

// escape writes a value of a query. What has no meaning there stays as it is.
func escape(b *strings.Builder, value string) {
	const digits = "0123456789ABCDEF"
	for _, c := range []byte(value) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.IndexByte("-._~/:@,", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
}
