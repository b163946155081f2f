package redirect

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/lwango/lwango/internal/http1"
)

// template is a parsed `to`: literal text and placeholders in turn.
type template []piece

// piece is literal text or, where that is empty, a placeholder.
type piece struct {
	text string
	name string // "path", "uri", "query" or "host"
}

// source is what a template can use of a request.
type source struct {
	host  string // as sent, maybe with a port
	path  string // whole, decoded
	below string // what the path has below the route's prefix, decoded, with a slash in front
	query string // raw, without the question mark
}

// needsHost reports whether the template cannot be expanded for a request without a Host.
func (t template) needsHost() bool {
	return slices.ContainsFunc(t, func(p piece) bool { return p.name == "host" })
}

// expand returns the Location. It escapes paths again. It leaves out a path's first slash behind
// another slash, and never puts a second slash at the beginning: behind "//" there, the first
// segment is the name of a server.
func (t template) expand(s source) string {
	if len(t) == 1 && t[0].name == "" {
		return t[0].text
	}
	var b strings.Builder
	for _, p := range t {
		switch p.name {
		case "":
			b.WriteString(p.text)
		case "host":
			b.WriteString(withoutPort(s.host))
		case "query":
			writeQuery(&b, s.query)
		default:
			path := s.below
			if p.name == "uri" {
				path = s.path
			}
			if strings.HasSuffix(b.String(), "/") {
				path = strings.TrimPrefix(path, "/")
			}
			b.WriteString((&url.URL{Path: path}).EscapedPath())
			if p.name == "uri" {
				writeQuery(&b, s.query)
			}
		}
	}
	location := b.String()
	if !strings.HasPrefix(t[0].text, "//") { // else the second slash is the configuration's
		for strings.HasPrefix(location, "//") {
			location = location[1:]
		}
	}
	return location
}

func writeQuery(b *strings.Builder, query string) {
	if query != "" {
		b.WriteByte('?')
		b.WriteString(http1.EscapeQuery(query))
	}
}

// withoutPort cuts off the port: it belongs to the listener that got the request, and seldom to the
// place to which the client is sent.
func withoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}

// foreign is a placeholder of other servers. Unrefused, it would go to the client as it stands. RFC
// 3986 allows a $ in an address, but addresses seldom have one.
var foreign = regexp.MustCompile(`\$(\w+|$)`)

// parseTemplate reads `to`.
func parseTemplate(to string) (template, error) {
	if to == "" {
		return nil, errors.New("missing: the address to send clients to")
	}
	for i := range len(to) {
		if c := to[i]; c <= ' ' || c >= 0x7f || c == '\\' || c == '"' || c == '<' || c == '>' {
			return nil, fmt.Errorf("%q cannot be part of an address; write it as %%%02X", c, c)
		}
	}
	var t template
	for rest := to; rest != ""; {
		text, after, placeholder := strings.Cut(rest, "{")
		if strings.Contains(text, "}") {
			return nil, fmt.Errorf("%q: a } without its {", to)
		}
		if name := foreign.FindString(text); name != "" {
			return nil, fmt.Errorf("%q: unknown placeholder %s "+
				"(known: {path}, {uri}, {query}, {host}; a $ itself is written %%24)", to, name)
		}
		if text != "" {
			t = append(t, piece{text: text})
		}
		if !placeholder {
			break
		}
		name, after, closed := strings.Cut(after, "}")
		if !closed {
			return nil, fmt.Errorf("%q: a { without its }", to)
		}
		switch name {
		case "path", "uri", "query", "host":
			t = append(t, piece{name: name})
		default:
			return nil, fmt.Errorf(
				"%q: unknown placeholder {%s} (known: {path}, {uri}, {query}, {host})", to, name)
		}
		rest = after
	}
	return t, t.check(to)
}

// check refuses a template in which the path of a request could name the server, since any link can
// carry such a path: an open redirect. The server must come from the configuration, or be the one
// that the client asked ({host}), and must be complete before the path begins.
func (t template) check(to string) error {
	sample := t.expand(source{host: "host.example", path: "/uri.example", below: "/path.example"})
	u, err := url.Parse(sample)
	if err != nil {
		return fmt.Errorf("%q: not an address", to)
	}
	asked, err := url.Parse(t.expand(source{host: "host.example", path: "/uri.example",
		below: "/path.example", query: "query.example"}))
	if err != nil {
		return fmt.Errorf("%q: not an address", to)
	}
	switch {
	case asked.Host != u.Host:
		return fmt.Errorf("%q: the query of a request would name the server", to)
	case sample == "":
		return fmt.Errorf("%q: nothing but a query", to)
	case u.Scheme == "" && u.Host == "" && !strings.HasPrefix(sample, "/"):
		return fmt.Errorf("%q: expected http://..., https://... or a path that begins with a slash",
			to)
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host == "":
		return fmt.Errorf("%q: no server after %s:", to, u.Scheme)
	case strings.Contains(u.Host, "path.example") || strings.Contains(u.Host, "uri.example"):
		return fmt.Errorf("%q: the path of a request would name the server", to)
	}
	return nil
}
