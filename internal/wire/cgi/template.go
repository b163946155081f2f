package cgi

import (
	"fmt"
	"strings"

	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/template"
)

// Own are the placeholders of parameters that differ there from those of other texts: nothing is
// escaped in a parameter, so a path is decoded.
var Own = []string{"path", "rest", "uri", "query", "host", "scheme", "address", "id"}

// ofFront are the placeholders of the front controller.
var ofFront = []string{"path", "rest"}

// expand appends the value of a parameter, as it is: nothing is escaped in a parameter.
func (r *Request) expand(b []byte, value template.Text) []byte {
	for _, p := range value {
		switch p.Name {
		case "":
			b = append(b, p.Text...)
		case "path":
			b = append(b, r.Path...)
		case "rest":
			b = append(b, strings.TrimPrefix(r.Path, "/")...)
		case "uri":
			b = append(b, r.Target...)
		case "query":
			if r.Query != "" {
				b = append(append(b, '?'), r.Query...)
			}
		case "host":
			name, _ := http1.SplitPort(r.Host)
			b = append(b, name...)
		case "scheme":
			b = append(b, r.scheme()...)
		case "address":
			b = r.appendRemote(b)
		case "id":
			b = append(b, r.ID...)
		default:
			if r.Other != nil {
				b = r.Other(b, p.Name)
			}
		}
	}
	return b
}

// A Front is a front controller.
type Front struct {
	Script string
	info   template.Text // empty: no path info
	query  template.Text // empty: the request's own is all
}

// ParseFront reads a front controller: a script, perhaps with path info, perhaps with a query. The
// error says what is wrong with text.
func ParseFront(text string, extensions []string) (f Front, err error) {
	if name := template.Foreign(text); name != "" {
		return f, fmt.Errorf("%q: unknown placeholder %s (known: %s)", text, name,
			template.List(ofFront))
	}
	path, query, asks := strings.Cut(text, "?")
	literal, _, _ := strings.Cut(path, "{")
	f.Script = path
	if script, info, ok := Split(literal, extensions); ok && info+path[len(literal):] != "" {
		f.Script = script
		if f.info, err = template.Parse(path[len(script):], ofFront); err != nil {
			return f, err
		}
	}
	if asks {
		if f.query, err = template.Parse(query, ofFront); err != nil {
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
		switch text := of(p, path); {
		case p.Name != "" && strings.HasSuffix(b.String(), "/"):
			b.WriteString(strings.TrimPrefix(text, "/")) // there are no empty segments
		default:
			b.WriteString(text)
		}
	}
	return b.String()
}

// Query returns the front controller's own query for such a path. It escapes parts of the path, so
// that no path can add a variable.
func (f *Front) Query(path string) string {
	if len(f.query) == 0 {
		return ""
	}
	var b strings.Builder
	for _, p := range f.query {
		if p.Name == "" {
			b.WriteString(p.Text)
			continue
		}
		b.WriteString(http1.EscapeValue(of(p, path)))
	}
	return b.String()
}

// of returns what p stands for, as it is.
func of(p template.Piece, path string) string {
	switch p.Name {
	case "path":
		return path
	case "rest":
		return strings.TrimPrefix(path, "/")
	}
	return p.Text
}
