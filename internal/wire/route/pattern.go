// Package route is the pattern language of net/http.ServeMux: what a pattern says, which of two
// patterns is the more specific one, and the way from the path of a request to its pattern. It
// knows nothing of requests and handlers, and allocates nothing in a match.
//
//	pattern.go   Parse: from text to a Pattern
//	relation.go  Conflict: patterns of which neither is more specific
//	tree.go      Tree: the pattern of a request
package route

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Pattern is a parsed pattern. It does not change.
type Pattern struct {
	Text   string   // as it was written
	Method string   // empty: every method
	Host   string   // in lower case, without a port; empty: every host
	Prefix string   // the path before the first wildcard, decoded, without a slash at its end
	Names  []string // of the wildcards, in their order

	Number int    // the caller's own; a match gives the Pattern back
	Caller string // where it was registered, as file:line, for messages

	segments []segment
}

// segment is what stands between two slashes of a pattern.
type segment struct {
	kind kind
	text string // of a literal, in the form of http1.SplitPath
	name string // of a wildcard; empty for a slash at the end, which is a nameless rest
}

type kind uint8

const (
	literal  kind = iota
	wildcard      // {name}: one segment, which is not empty
	rest          // {name...}, or a slash at the end: whatever follows, maybe nothing
	end           // {$}: the slash at the end, and nothing behind it
)

// Parse reads "[METHOD ][HOST]/[PATH]". Beyond what net/http refuses, it refuses patterns that no
// request of this server can match: a method that is none, a path that is not
// clean, a host that is a dot, not in ASCII, or has a port.
func Parse(text string) (*Pattern, error) {
	p := &Pattern{Text: text}
	from := text
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		p.Method, from = text[:i], strings.TrimLeft(text[i:], " \t")
		switch {
		case p.Method == "":
			return nil, errors.New("begins with a space")
		case p.Method == "CONNECT":
			return nil, errors.New("no handler gets CONNECT: this server is no proxy")
		case !http1.ValidMethod(p.Method):
			return nil, fmt.Errorf("%q is not a method", p.Method)
		case p.Method != strings.ToUpper(p.Method): // most likely, GET is meant by get
			return nil, fmt.Errorf("%q is not a method in upper case", p.Method)
		}
	}
	slash := strings.IndexByte(from, '/')
	if slash < 0 {
		return nil, errors.New("has no path: a slash is missing")
	}
	if err := p.parseHost(from[:slash]); err != nil {
		return nil, err
	}
	p.Prefix = "\x00" // none yet
	path := from[slash:]
	for at := 0; at < len(path); {
		from := at + 1
		to := len(path)
		if i := strings.IndexByte(path[from:], '/'); i >= 0 {
			to = from + i
		}
		s, err := parseSegment(path[from:to], to == len(path))
		if err != nil {
			return nil, err
		}
		if s.name != "" {
			for _, name := range p.Names {
				if name == s.name {
					return nil, fmt.Errorf("has two wildcards with the name %q", name)
				}
			}
			p.Names = append(p.Names, s.name)
		}
		if s.kind != literal && p.Prefix == "\x00" {
			p.Prefix = joined(p.segments)
		}
		p.segments = append(p.segments, s)
		at = to
	}
	if p.Prefix == "\x00" {
		p.Prefix = joined(p.segments)
	}
	return p, nil
}

// parseHost sets p.Host. Hosts are compared without their port and whatever the case of letters
// (RFC 9110 section 4.2.3).
func (p *Pattern) parseHost(host string) error {
	switch colon := strings.LastIndexByte(host, ':'); {
	case host == ".":
		return errors.New("has an empty host")
	case strings.ContainsAny(host, "{}"):
		return errors.New("a host cannot have a wildcard, and a path begins with a slash")
	case strings.ContainsAny(host, " \t"):
		return errors.New("more than one space-separated word before the path")
	case strings.ContainsFunc(host, func(r rune) bool { return r >= 0x80 }):
		return errors.New("international names are written in their ASCII form, xn--...")
	case strings.HasPrefix(host, "["):
		if !strings.HasSuffix(host, "]") {
			return errors.New("a host is named without its port")
		}
	case colon >= 0 && strings.IndexByte(host, ':') == colon:
		return errors.New("a host is named without its port")
	case colon >= 0:
		host = "[" + host + "]" // an IPv6 address, which net/http wants without brackets
	}
	p.Host = ascii.ToLower(strings.TrimSuffix(host, "."))
	return nil
}

// parseSegment reads what stands between two slashes, or behind the last one.
func parseSegment(text string, last bool) (segment, error) {
	brace := strings.IndexByte(text, '{')
	switch {
	case text == "" && last:
		return segment{kind: rest}, nil
	case text == "":
		return segment{}, errors.New("has an empty segment, which no clean path has")
	case brace < 0:
		if decoded, err := url.PathUnescape(text); err == nil { // as net/http does
			text = decoded
		}
		if text == "." || text == ".." {
			return segment{}, errors.New("has a dot segment, which no clean path has")
		}
		for i := range len(text) {
			if text[i] < 0x20 || text[i] == 0x7f {
				return segment{}, errors.New("has a control character, which no path has")
			}
		}
		return segment{text: strings.ReplaceAll(text, "/", http1.EncodedSlash)}, nil
	case brace > 0:
		return segment{}, fmt.Errorf("%q: a wildcard is a whole segment", text)
	}
	name, ok := strings.CutSuffix(text[1:], "}")
	if !ok {
		return segment{}, fmt.Errorf("%q: a wildcard ends with a brace, and is a whole segment", text)
	}
	if name == "$" {
		if !last {
			return segment{}, errors.New("{$} stands at the end only")
		}
		return segment{kind: end}, nil
	}
	s := segment{kind: wildcard}
	if name, ok = strings.CutSuffix(name, "..."); ok {
		if s.kind = rest; !last {
			return segment{}, fmt.Errorf("%s stands at the end only", text)
		}
	}
	if s.name = name; !identifier(name) {
		return segment{}, fmt.Errorf("%q: the name of a wildcard is a Go identifier", text)
	}
	return s, nil
}

func identifier(name string) bool {
	for i, c := range name {
		if c != '_' && !unicode.IsLetter(c) && (i == 0 || !unicode.IsDigit(c)) {
			return false
		}
	}
	return name != ""
}

// joined is the path of literals.
func joined(segments []segment) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(s.text, http1.EncodedSlash, "/"))
	}
	return b.String()
}

// last returns the last segment; every pattern has one.
func (p *Pattern) last() segment { return p.segments[len(p.segments)-1] }
