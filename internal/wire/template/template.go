// Package template is texts of a configuration with placeholders for parts of a request, such as
// `to = "https://example.org{uri}"`.
//
//	text.go        Text: literal text and placeholders of any names
//	template.go    Template: an address or a target
//	expression.go  what regular expressions of a configuration are like
package template

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/lwango/lwango/internal/wire/http1"
)

// Template is an address to send clients to, or a target for a request. It does not change; any
// number of goroutines may expand it at once.
type Template struct {
	text     string
	pieces   Text
	captures []string // names of Source.Captures
}

// Source is what a template can use of a request.
type Source struct {
	Host  string // as sent, maybe with a port
	Path  Part   // whole
	Below Part   // what the path has below the route's prefix, with a slash in front
	Query string // raw, without the question mark
	Asks  bool   // there is a question mark, perhaps with nothing behind it

	// Captures are what the groups of an expression have matched, in the order in which Parse got
	// their names.
	Captures []Part
}

// Part is a part of a path, or another text.
type Part struct {
	Text string // decoded; a NUL is a slash that was encoded and is part of a segment
	Sent string // as it stands in a path that goes on (http1.AppendSent); empty: Text, encoded
}

func (p *Part) sent() string {
	if p.Sent != "" {
		return p.Sent
	}
	return string(http1.AppendPath(nil, []byte(p.Text)))
}

// own are the placeholders that every template has.
var own = []string{"path", "uri", "query", "host"}

// Own reports whether a name is that of a placeholder which every template has, so that no capture
// can have it.
func Own(name string) bool { return slices.Contains(own, name) }

// Literal reports whether the template has no placeholders.
func (t *Template) Literal() bool { return t.pieces.Literal() }

// HasQuery reports whether the template says what the query is, be it an empty one.
func (t *Template) HasQuery() bool {
	return slices.ContainsFunc(t.pieces, func(p Piece) bool {
		return p.Name == "uri" || p.Name == "query" || strings.Contains(p.Text, "?")
	})
}

// Fits reports whether the template can be expanded for a request with that host: it has no {host},
// or there is one. A host of dots would be a dot segment of a path.
func (t *Template) Fits(host string) bool {
	if !slices.ContainsFunc(t.pieces, func(p Piece) bool { return p.Name == "host" }) {
		return true
	}
	return strings.Trim(withoutPort(host), ".") != ""
}

// Expand returns the text with the parts of the request in it. In a path they stand as they were
// sent, and behind a question mark decoded and escaped as values of parameters, so that none of
// them can add a parameter; {query} stays as it was sent, and begins with "&" there, and {uri} is
// the target as it was sent, as a value. A part that begins with a slash loses it behind another
// slash. The result never begins with two slashes unless the text does: behind "//" there, the
// first segment is the name of a server.
func (t *Template) Expand(s *Source) string {
	if t.Literal() {
		return t.text
	}
	var b strings.Builder
	inQuery := false
	query := func() {
		if s.Query == "" {
			return
		}
		switch text := b.String(); {
		case !inQuery:
			b.WriteByte('?')
		case !strings.HasSuffix(text, "?") && !strings.HasSuffix(text, "&"):
			b.WriteByte('&')
		}
		b.WriteString(http1.EscapeQuery(s.Query))
		inQuery = true
	}
	for _, p := range t.pieces {
		var part *Part
		switch p.Name {
		case "":
			b.WriteString(p.Text)
			inQuery = inQuery || strings.Contains(p.Text, "?")
			continue
		case "host":
			host := strings.ReplaceAll(withoutPort(s.Host), "%", "%25") // else "%2e" were a dot
			if inQuery {
				host = http1.EscapeValue(withoutPort(s.Host))
			}
			b.WriteString(host)
			continue
		case "query":
			query()
			continue
		case "path":
			part = &s.Below
		case "uri":
			part = &s.Path
		default:
			part = &s.Captures[slices.Index(t.captures, p.Name)]
		}
		switch {
		case inQuery && p.Name == "uri":
			value := part.sent()
			if s.Asks || s.Query != "" {
				value += "?" + s.Query
			}
			b.WriteString(http1.EscapeValue(value))
			continue
		case inQuery:
			b.WriteString(http1.EscapeValue(strings.ReplaceAll(part.Text, http1.EncodedSlash, "/")))
			continue
		}
		value := part.sent()
		if strings.HasSuffix(b.String(), "/") {
			value = strings.TrimPrefix(value, "/")
		}
		b.WriteString(value)
		if p.Name == "uri" {
			if query(); s.Asks && s.Query == "" {
				b.WriteByte('?')
				inQuery = true
			}
		}
	}
	text := b.String()
	if !strings.HasPrefix(t.pieces[0].Text, "//") { // else the second slash is the configuration's
		for strings.HasPrefix(text, "//") {
			text = text[1:]
		}
	}
	return text
}

// withoutPort cuts off the port: it belongs to the listener that got the request, and seldom to the
// place to which the client is sent.
func withoutPort(host string) string {
	host, _ = http1.SplitPort(host)
	return host
}

// ParseAddress reads an address to send clients to: http://..., https://... or a path. captures are
// the names of an expression's groups; an empty one has no placeholder.
//
// It refuses an address in which the path of a request, or a capture, could name the scheme or the
// server, since any link can carry such a path: an open redirect. The server must come from the
// configuration, or be the one that the client asked ({host}), and must be complete before the path
// begins.
func ParseAddress(text string, captures []string) (*Template, error) {
	if text == "" {
		return nil, errors.New("missing: the address to send clients to")
	}
	t, err := parse(text, captures)
	if err != nil {
		return nil, err
	}
	return t, t.checkAddress(captures)
}

// ParseTarget reads a path, maybe with a query, that a request is to have.
func ParseTarget(text string, captures []string) (*Template, error) {
	t, err := parse(text, captures)
	if err != nil {
		return nil, err
	}
	first := t.pieces[0]
	switch {
	case strings.HasPrefix(first.Text, "//"):
		return nil, fmt.Errorf("%q: a path of the same site begins with one slash", text)
	case !strings.HasPrefix(first.Text, "/") && first.Name != "path" && first.Name != "uri":
		return nil, fmt.Errorf("%q: expected a path that begins with a slash", text)
	case strings.Contains(text, "#"):
		return nil, fmt.Errorf("%q: a request has no #fragment", text)
	}
	raw, _, _ := strings.Cut(t.Expand(sample(captures, "")), "?")
	if clean, err := http1.CleanPath(nil, []byte(raw)); err != nil || HasDots(raw) {
		return nil, fmt.Errorf("%q: not a path, or one with dot segments", text)
	} else if len(clean) == 0 {
		return nil, fmt.Errorf("%q: not a path", text)
	}
	return t, nil
}

// HasDots reports whether a raw path has a dot segment, also an encoded one.
func HasDots(raw string) bool {
	if path, err := url.PathUnescape(raw); err == nil {
		raw = path
	}
	return strings.Contains("/"+raw+"/", "/./") || strings.Contains("/"+raw+"/", "/../")
}

func parse(text string, captures []string) (*Template, error) {
	if text == "" {
		return nil, errors.New("missing: a path that begins with a slash")
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || c == '\\' || c == '"' || c == '<' || c == '>' {
			return nil, fmt.Errorf("%q cannot be part of an address; write it as %%%02X", c, c)
		}
	}
	known := slices.Concat(own, captures)
	known = slices.DeleteFunc(known, func(name string) bool { return name == "" })
	pieces, err := Parse(text, known)
	if err != nil {
		return nil, err
	}
	for _, p := range pieces {
		if err := checkLiteral(text, p.Text, known); err != nil {
			return nil, err
		}
	}
	return &Template{text, pieces, captures}, nil
}

// checkLiteral refuses what looks like a placeholder and is none. Braces cannot stand in an address
// (RFC 3986 section 2), so they need no other meaning. A $ can, but seldom does.
func checkLiteral(text, literal string, known []string) error {
	if name := Foreign(literal); name != "" {
		return fmt.Errorf("%q: unknown placeholder %s (known: %s; a $ itself is written %%24)", text,
			name, List(known))
	}
	i := strings.IndexAny(literal, "{}")
	switch {
	case i < 0:
		return nil
	case literal[i] == '}':
		return fmt.Errorf("%q: a } without its {", text)
	}
	name, _, closed := strings.Cut(literal[i+1:], "}")
	if !closed {
		return fmt.Errorf("%q: a { without its }", text)
	}
	return unknown(text, name, known)
}

// sample is a request whose parts can be found again in what a template makes of them.
func sample(captures []string, query string) *Source {
	s := &Source{Host: "host.example", Path: Part{Text: "/uri.example"},
		Below: Part{Text: "/path.example"},
		Query: query}
	for range captures {
		s.Captures = append(s.Captures, Part{Text: "capture.example"})
	}
	return s
}

func (t *Template) checkAddress(captures []string) error {
	address := t.Expand(sample(captures, ""))
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("%q: not an address", t.text)
	}
	asked, err := url.Parse(t.Expand(sample(captures, "query.example")))
	if err != nil {
		return fmt.Errorf("%q: not an address", t.text)
	}
	// A user in front of the host is in the same danger: a slash in it ends the server's name.
	server := u.User.String() + "@" + u.Host
	switch {
	case asked.Host != u.Host || asked.User.String() != u.User.String():
		return fmt.Errorf("%q: the query of a request would name the server", t.text)
	case address == "":
		return fmt.Errorf("%q: nothing but a query", t.text)
	case u.Scheme == "" && u.Host == "" && !strings.HasPrefix(address, "/"):
		return fmt.Errorf("%q: expected http://..., https://... or a path that begins with a slash",
			t.text)
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host == "":
		return fmt.Errorf("%q: no server after %s:", t.text, u.Scheme)
	case strings.Contains(u.Scheme, "capture.example"), strings.Contains(u.Scheme, "host.example"):
		return fmt.Errorf("%q: a request would name the scheme", t.text)
	case strings.Contains(server, "path.example") || strings.Contains(server, "uri.example") ||
		strings.Contains(server, "capture.example"):
		return fmt.Errorf("%q: the path of a request would name the server", t.text)
	}
	return nil
}
