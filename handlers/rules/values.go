package rules

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/glob"
)

// values are the values of one name: a field of the header, a cookie or a parameter of the query.
// One of them must match one pattern.
type values struct {
	kind, name string
	text       []string
	patterns   []pattern

	// each calls f with the values until that returns true, and reports whether it did.
	each func(q Asked, name string, f func([]byte) bool) bool
	test func([]byte) bool // match, made once
}

// pattern is for a whole value: a glob, in which the star also stands for slashes, or an
// expression.
type pattern struct {
	glob       glob.Value
	expression *expression // nil: glob
}

// parsePattern reads a pattern. An expression has a tilde before it.
func parsePattern(text string) (pattern, error) {
	if re, ok := strings.CutPrefix(text, "~"); ok {
		x, err := parseExpression(re)
		return pattern{expression: x}, err
	}
	return pattern{glob: glob.NewValue(text)}, nil
}

func (p *pattern) match(b []byte) bool {
	if p.expression != nil {
		return p.expression.match(b)
	}
	return p.glob.Match(b)
}

func (c *values) match(b []byte) bool {
	for i := range c.patterns {
		if c.patterns[i].match(b) {
			return true
		}
	}
	return false
}

func (c *values) hold(q Asked, _ []byte) (bool, error) { return c.each(q, c.name, c.test), nil }
func (c *values) key() string                          { return c.kind + "." + c.name }
func (c *values) wants() string                        { return quoted(c.text) }

func (c *values) found(q Asked, _ []byte) string {
	var all []string
	c.each(q, c.name, func(b []byte) bool {
		all = append(all, string(b))
		return false
	})
	if len(all) == 0 {
		return "there is none"
	}
	return fmt.Sprintf("it is %s", quoted(all))
}

func eachField(q Asked, name string, f func([]byte) bool) bool {
	value, next := q.HeaderViewFrom(name, 0)
	for ; next > 0; value, next = q.HeaderViewFrom(name, next) {
		if f(value) {
			return true
		}
	}
	return false
}

// eachCookie takes a cookie's value without quotes around it, as net/http does.
func eachCookie(q Asked, name string, f func([]byte) bool) bool {
	const field = "Cookie"
	line, next := q.HeaderViewFrom(field, 0)
	for ; next > 0; line, next = q.HeaderViewFrom(field, next) {
		for len(line) > 0 {
			var pair []byte
			pair, line, _ = bytes.Cut(line, []byte{';'})
			key, value, ok := bytes.Cut(ascii.TrimOWS(pair), []byte{'='})
			if !ok || string(key) != name {
				continue
			}
			if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
				value = value[1 : n-1]
			}
			if f(value) {
				return true
			}
		}
	}
	return false
}

// eachParameter takes a parameter as forms encode it. One without "=" has an empty value. A
// malformed encoding stands for itself, and a name begins behind spaces and ends at a NUL, as in
// PHP: what an application sees must not pass unseen.
func eachParameter(q Asked, name string, f func([]byte) bool) bool {
	for query := q.QueryView(); len(query) > 0; {
		var pair []byte
		pair, query, _ = bytes.Cut(query, []byte{'&'})
		key, value, _ := bytes.Cut(pair, []byte{'='})
		if encoded(key) {
			key, _, _ = bytes.Cut(unescape(key), []byte{0})
			key = bytes.TrimLeft(key, " ")
		}
		if string(key) != name {
			continue
		}
		if encoded(value) {
			value = unescape(value)
		}
		if f(value) {
			return true
		}
	}
	return false
}

// unescape decodes the plus signs and the percent-encoding of a form, as far as that is valid.
func unescape(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '+' {
			c = ' '
		} else if c == '%' && i+2 < len(b) {
			if v, err := strconv.ParseUint(string(b[i+1:i+3]), 16, 8); err == nil {
				c = byte(v)
				i += 2
			}
		}
		out = append(out, c)
	}
	return out
}

func encoded(b []byte) bool { return bytes.IndexByte(b, '%') >= 0 || bytes.IndexByte(b, '+') >= 0 }
