// Package glob is patterns for paths and values, as configurations have them. Its functions may be
// called from any goroutine.
package glob

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// Glob is a pattern for a path. In a segment, "*" stands for any characters, also none, and "?" for
// one character; neither stands for a slash. A segment of two stars stands for any number of
// segments, also none. All else stands for itself, and case matters. A pattern that begins with a
// slash is for the whole path; one without any slash is for a segment, wherever it is.
//
// Paths are decoded and clean. A Glob does not change, and matching allocates nothing and needs
// little stack.
type Glob struct {
	text     string
	anywhere bool // for any one segment
	literal  string
	segments []segment // after literal
}

// What a pattern cannot say, but perhaps something else that the caller knows of.
var (
	ErrQuery  = errors.New("a path has no query in it")
	ErrSyntax = errors.New("a pattern knows *, ** and ?; write several patterns for more")
)

// Parse reads a pattern for a path. It refuses one that no clean path can match.
func Parse(text string) (*Glob, error) {
	g := &Glob{text: text}
	switch {
	case text == "":
		return nil, errors.New("an empty pattern matches no path")
	case text == "**":
		return nil, errors.New(`"**": every path is "/**"`)
	case strings.Contains(text, "?") && strings.Contains(text, "="):
		return nil, fmt.Errorf("%q: %w", text, ErrQuery)
	case strings.ContainsAny(text, `[]{}\`):
		return nil, fmt.Errorf("%q: %w", text, ErrSyntax)
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c < 0x20 || c == 0x7f:
			return nil, fmt.Errorf("%q: no path has a control character", text)
		case c == '%' && i+2 < len(text) && hex(text[i+1]) && hex(text[i+2]):
			return nil, fmt.Errorf("%q: patterns are compared with decoded paths; "+
				"write the character instead of %s", text, text[i:i+3])
		}
	}
	if !strings.Contains(text, "/") {
		s, err := parseSegment(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		g.anywhere, g.segments = true, []segment{s}
		return g, nil
	}
	if text[0] != '/' {
		return nil, fmt.Errorf(`%q: a pattern with a slash in it begins with one (/%s), `+
			`or with "/**/" for any folder`, text, text)
	}
	parts := strings.Split(text[1:], "/")
	for i, part := range parts {
		switch last := i == len(parts)-1; {
		case part == "" && !last:
			return nil, fmt.Errorf("%q: has an empty segment, which no cleaned path has", text)
		case part == "." || part == "..":
			return nil, fmt.Errorf("%q: has a dot segment, which no cleaned path has", text)
		}
		if part == "**" {
			if n := len(g.segments); n == 0 || !g.segments[n-1].deep { // two in a row are one
				g.segments = append(g.segments, segment{deep: true})
			}
			continue
		}
		s, err := parseSegment(part)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		if len(g.segments) == 0 && s.plain {
			g.literal += "/" + part
			continue
		}
		g.segments = append(g.segments, s)
	}
	return g, nil
}

func hex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// String returns the pattern.
func (g *Glob) String() string { return g.text }

// MatchBytes is Match.
func (g *Glob) MatchBytes(path []byte) bool {
	return g.Match(unsafe.String(unsafe.SliceData(path), len(path))) // which does not keep it
}

// Match reports whether the pattern stands for a clean path.
func (g *Glob) Match(path string) bool {
	if g.anywhere {
		s := &g.segments[0]
		for path != "" {
			var part string
			part, path = cut(path)
			if part != "" && s.match(part) {
				return true
			}
		}
		return false
	}
	path, ok := strings.CutPrefix(path, g.literal)
	return ok && (path == "" || path[0] == '/') && g.rest(path)
}

// rest matches segments. What is between two "**" is of a fixed number of segments, and the first
// place where it fits is as good as any later one; so only the last "**" is gone back to.
func (g *Glob) rest(path string) bool {
	at := 0
	deep, from := -1, "" // the last "**", and what follows what it stands for so far
	for {
		switch {
		case at < len(g.segments) && g.segments[at].deep:
			if at == len(g.segments)-1 {
				return true
			}
			deep, from = at, path
			at++
			continue
		case path == "":
			if at == len(g.segments) {
				return true
			}
		case at < len(g.segments):
			part, after := cut(path)
			if g.segments[at].match(part) {
				path = after
				at++
				continue
			}
		}
		if deep < 0 || from == "" {
			return false
		}
		_, from = cut(from)
		path, at = from, deep+1
	}
}

// cut splits "/a/b" into "a" and "/b", and "/" into nothing and nothing: the empty last segment.
func cut(path string) (part, rest string) {
	path = path[1:]
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// Value is a pattern for a whole value, such as that of a header field. A star stands for any
// characters there, slashes as well. It does not change, and matching allocates nothing.
type Value struct{ segment }

// NewValue reads a pattern for a value. Every text is one.
func NewValue(text string) Value { return Value{newSegment(text)} }

// Match reports whether the pattern stands for all of b.
func (v *Value) Match(b []byte) bool {
	return v.match(unsafe.String(unsafe.SliceData(b), len(b))) // which does not keep it
}

// segment is a pattern without slashes: for a segment of a path, or for a whole value.
type segment struct {
	deep   bool // "**"
	plain  bool // neither * nor ?: prefix is all
	simple bool // one star and no "?": prefix and suffix are all

	prefix, suffix string // before the first star and after the last, if they have no "?"
	inner          string // between two stars that are the first and the last character
	text           string
}

var errStars = errors.New(`** stands between slashes, as in "/data/**"`)

func parseSegment(text string) (segment, error) {
	if strings.Contains(text, "**") {
		return segment{}, errStars
	}
	return newSegment(text), nil
}

func newSegment(text string) segment {
	s := segment{text: text}
	first, last := strings.IndexByte(text, '*'), strings.LastIndexByte(text, '*')
	switch question := strings.Contains(text, "?"); {
	case first < 0 && !question:
		s.plain, s.prefix = true, text
	case first < 0:
	default:
		s.simple = first == last && !question
		if p := text[:first]; !strings.Contains(p, "?") {
			s.prefix = p
		}
		if p := text[last+1:]; !strings.Contains(p, "?") {
			s.suffix = p
		}
		if n := len(text) - 1; n > 1 && first == 0 && last == n &&
			!strings.ContainsAny(text[1:n], "*?") {
			s.inner = text[1:n]
		}
	}
	return s
}

// match reports whether the pattern stands for all of b.
func (s *segment) match(b string) bool {
	if s.plain {
		return b == s.prefix
	}
	if len(b) < len(s.prefix)+len(s.suffix) || !strings.HasPrefix(b, s.prefix) ||
		!strings.HasSuffix(b, s.suffix) {
		return false
	}
	if s.inner != "" {
		return strings.Contains(b, s.inner)
	}
	return s.simple || wildcards(s.text, b)
}

// wildcards matches by going back to the last star: if what stands between two stars fits at all,
// its first place is as good as any later one. So it takes len(pattern) * len(b) steps at most.
func wildcards(pattern, b string) bool {
	star, from := -1, 0 // the last star, and the end of what it stands for so far
	p, i := 0, 0
	for {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			if p == len(pattern)-1 {
				return true
			}
			star, from = p, i
			p++
			continue
		case p == len(pattern) && i == len(b):
			return true
		case p < len(pattern) && i < len(b) && pattern[p] == '?':
			p++
			i += character(b[i:])
			continue
		case p < len(pattern) && i < len(b) && pattern[p] == b[i]:
			p++
			i++
			continue
		}
		if star < 0 || from == len(b) {
			return false
		}
		from += character(b[from:])
		p, i = star+1, from
	}
}

// character returns the length of the first character of b: in UTF-8, or else a byte.
func character(b string) int {
	if b[0] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRuneInString(b)
	return n
}
