package rules

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/glob"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/http1"
)

// values are the values of one name: a field of the header, a cookie or a parameter of the query.
// One of them must match one pattern.
type values struct {
	kind, name string
	text       []string
	patterns   []pattern

	// each calls f with the values until that returns true, and reports whether it did. With php, they
	// are also those of names that PHP takes for name.
	each func(q Asked, name string, php bool, f func([]byte) bool) bool
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

// hold is true of any name that PHP takes for the one of the condition, and its negation (see
// negated) of all but the very name. To others than PHP, "a.b" is another parameter than "a_b"; but
// whatever answers must not get what a rule denies.
func (c *values) hold(q Asked, _ []byte) (bool, error) {
	return c.each(q, c.name, true, c.test), nil
}
func (c *values) wants() string { return quoted(c.text) }

func (c *values) key() string {
	if c.name == "" { // of a certificate
		return c.kind
	}
	return c.kind + "." + c.name
}

func (c *values) found(q Asked, _ []byte) string {
	var all []string
	c.each(q, c.name, true, func(b []byte) bool {
		all = append(all, string(b))
		return false
	})
	if len(all) == 0 {
		return "there is none"
	}
	return fmt.Sprintf("it is %s", quoted(all))
}

func eachVerify(q Asked, _ string, _ bool, f func([]byte) bool) bool {
	return f([]byte(q.ClientVerify()))
}

func eachSubject(q Asked, _ string, _ bool, f func([]byte) bool) bool {
	if q.ClientVerify() != "SUCCESS" {
		return false
	}
	return f([]byte(q.ClientCertificate().Subject.String()))
}

func eachFingerprint(q Asked, _ string, _ bool, f func([]byte) bool) bool {
	c := q.ClientCertificate()
	return c != nil && f(placeholder.AppendFingerprint(nil, c))
}

func eachField(q Asked, name string, _ bool, f func([]byte) bool) bool {
	value, next := q.HeaderViewFrom(name, 0)
	for ; next > 0; value, next = q.HeaderViewFrom(name, next) {
		if f(value) {
			return true
		}
	}
	return false
}

// eachCookie takes a cookie's value without quotes around it, as net/http does.
func eachCookie(q Asked, name string, php bool, f func([]byte) bool) bool {
	const field = "Cookie"
	line, next := q.HeaderViewFrom(field, 0)
	for ; next > 0; line, next = q.HeaderViewFrom(field, next) {
		for len(line) > 0 {
			var pair []byte
			pair, line, _ = bytes.Cut(line, []byte{';'})
			key, value, ok := bytes.Cut(ascii.TrimOWS(pair), []byte{'='})
			if !ok {
				continue
			}
			var index []byte
			if string(key) != name {
				if index, ok = phpName(key, name); !ok || !php {
					continue
				}
			}
			if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
				value = value[1 : n-1]
			}
			if f(value) || len(index) > 0 && f(index) {
				return true
			}
		}
	}
	return false
}

// eachParameter takes a parameter as forms encode it. One without "=" has an empty value. A
// malformed encoding stands for itself, and a name begins behind spaces and ends at a NUL, as in
// PHP: what an application sees must not pass unseen.
func eachParameter(q Asked, name string, php bool, f func([]byte) bool) bool {
	for query := q.QueryView(); len(query) > 0; {
		var pair []byte
		pair, query, _ = bytes.Cut(query, []byte{'&'})
		key, value, _ := bytes.Cut(pair, []byte{'='})
		if encoded(key) {
			key, _, _ = bytes.Cut(unescape(key), []byte{0})
			key = bytes.TrimLeft(key, " ")
		}
		var index []byte
		if string(key) != name {
			var ok bool
			if index, ok = phpName(key, name); !ok || !php {
				continue
			}
		}
		if encoded(value) {
			value = unescape(value)
		}
		if f(value) || len(index) > 0 && f(index) {
			return true
		}
	}
	return false
}

// phpName reports whether PHP takes the name of a parameter or cookie, decoded, for name, and
// returns what stands between the first brackets. PHP makes "_" of dots, spaces and a bracket that
// is not closed, and an array of "a[b]=1": its key b may choose what to do as well as a value.
func phpName(key []byte, name string) (index []byte, same bool) {
	if i := bytes.IndexByte(key, '['); i > 0 {
		if n := bytes.IndexByte(key[i:], ']'); n > 0 {
			key, index = key[:i], key[i+1:i+n]
		}
	}
	if len(key) != len(name) {
		return nil, false
	}
	for i, c := range key {
		if phpLetter(c) != phpLetter(name[i]) {
			return nil, false
		}
	}
	return index, true
}

func phpLetter(c byte) byte {
	if c == '.' || c == ' ' || c == '[' {
		return '_'
	}
	return c
}

// unescape decodes the plus signs and the percent-encoding of a form, as far as that is valid.
func unescape(b []byte) []byte { return http1.AppendUnescaped(make([]byte, 0, len(b)), b) }

func encoded(b []byte) bool { return bytes.IndexByte(b, '%') >= 0 || bytes.IndexByte(b, '+') >= 0 }
