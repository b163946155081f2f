package proxy

import (
	"regexp"
	"slices"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/template"
)

// mapping is a row of a table: a beginning, a domain, or behind a "~" an expression, and what takes
// the place of what it is for.
type mapping struct {
	from   string
	re     *regexp.Regexp // nil: from is no expression
	groups []string       // of re, as placeholders
	to     template.Text
}

// match is what a mapping has found.
type match struct {
	groups []string // what they have matched
	tail   string   // behind a beginning
}

// parseMappings reads a table, in the order in which its rows are tried: the longest beginning
// first, and expressions behind all of them.
func parseMappings(key string, table map[string]string, known []string) (all []mapping, err error) {
	for from, text := range table {
		p := mapping{from: from}
		names := known
		if expression, ok := strings.CutPrefix(from, "~"); ok {
			if p.re, p.groups, err = template.Expression(expression); err != nil {
				return nil, handlers.BadKey(key, "%s: %w", from, err)
			}
			for _, name := range p.groups {
				if slices.Contains(known, name) {
					return nil, handlers.BadKey(key,
						"%s: a group cannot be called %s: {%s} is a part of the request", from, name, name)
				}
			}
			names = append(slices.Clip(known), p.groups...)
		}
		p.to, err = template.Parse(text, names)
		switch cookie := key != "map_location"; {
		case from == "":
			return nil, handlers.BadKey(key, "expected what an address begins with, not \"\"")
		case err != nil:
			return nil, handlers.BadKey(key, "%s: %w", from, err)
		case template.Variable(text) != "":
			return nil, handlers.BadKey(key, "%s: %q: unknown placeholder %s", from, text,
				template.Variable(text))
		case p.re != nil && group.MatchString(text) && unknownGroup(p.to) != "":
			return nil, handlers.BadKey(key, "%s: %q: %s is no group of the expression; the first is {1}",
				from, text, unknownGroup(p.to))
		case !http1.ValidFieldValue(text):
			return nil, handlers.BadKey(key,
				"%s: control characters cannot be part of a header field", from)
		case cookie && strings.ContainsAny(text, "; ,"):
			return nil, handlers.BadKey(key, "%s: %q cannot be part of a cookie's attribute",
				from, text)
		case key == "map_cookie_path" && (p.re == nil && from[0] != '/' || text == "" || text[0] != '/'):
			return nil, handlers.BadKey(key,
				"%s: expected paths that begin with a slash, not %q", from, text)
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b mapping) int {
		switch {
		case a.re == nil && b.re != nil:
			return -1
		case a.re != nil && b.re == nil:
			return 1
		case len(a.from) != len(b.from):
			return len(b.from) - len(a.from)
		}
		return strings.Compare(a.from, b.from)
	})
	return all, nil
}

// group is what people take for a group of an expression: of this server's, or of nginx's.
var group = regexp.MustCompile(`\{\d+\}|\$\w+`)

// unknownGroup returns a group that is in the literal parts of a text, "" if there is none.
func unknownGroup(t template.Text) string {
	for _, p := range t {
		if found := group.FindString(p.Text); found != "" {
			return found
		}
	}
	return ""
}

// match reports whether a text is one that the mapping is for.
func (p *mapping) match(text string) (m match, ok bool) {
	if p.re == nil {
		m.tail, ok = strings.CutPrefix(text, p.from)
		return m, ok
	}
	found := p.re.FindStringSubmatch(text)
	if found == nil {
		return m, false
	}
	m.groups = found[1:]
	return m, true
}

// matchDomain is match for a domain without a dot in front, which counts as a whole and in any
// case.
func (p *mapping) matchDomain(domain string) (m match, ok bool) {
	if p.re == nil {
		return m, ascii.EqualFold(domain, strings.TrimPrefix(p.from, "."))
	}
	return p.match(strings.ToLower(domain))
}

// needsHost reports whether {host} is in what takes the place.
func (p *mapping) needsHost() bool {
	return slices.ContainsFunc(p.to, func(t template.Piece) bool { return t.Name == "host" })
}

// names reports whether what takes the place says by itself of which server it is, whatever has
// been found.
func (p *mapping) names(req *conn.Request) bool {
	found := match{groups: make([]string, len(p.groups))}
	for i := range found.groups {
		found.groups[i] = "x" // is neither a slash nor nothing
	}
	return leadsAway(p.expand(req, "x", found))
}

// expand returns what takes the place of what was found, with host for {host}.
func (p *mapping) expand(req *conn.Request, host string, found match) string {
	var out strings.Builder
	for _, piece := range p.to {
		switch piece.Name {
		case "":
			out.WriteString(piece.Text)
		case "host":
			out.WriteString(host)
		case "scheme":
			out.WriteString(placeholder.Scheme(req))
		default:
			out.WriteString(found.groups[slices.Index(p.groups, piece.Name)])
		}
	}
	out.WriteString(found.tail)
	return out.String()
}
