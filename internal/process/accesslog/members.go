package accesslog

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/template"
)

// memberName is what the name of a member may be: it needs no escapes.
var memberName = regexp.MustCompile(`^[A-Za-z0-9_@.:-]{1,64}$`)

// numbers are the placeholders that are numbers in JSON, where they have a value.
var numbers = map[string]bool{"status": true, "bytes": true, "bytes_in": true, "duration": true,
	"upstream_tries": true, "upstream_connect": true, "upstream_first_byte": true,
	"upstream_time": true, "close": true}

// member is one of an object.
type member struct {
	name   string
	value  lineFormat // raw
	number bool
}

// parseMembers returns the format for the key json: an object with these members, by their names. A
// member whose text is empty is left out. The value of a member that is a number alone is one.
func parseMembers(texts map[string]string, values *placeholder.Maps) (lineFormat, error) {
	var all []member
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if !memberName.MatchString(name) {
			return nil, fmt.Errorf("%q: expected a name of letters, digits and any of _ @ . : -", name)
		}
		m := member{name: name}
		if inner, ok := strings.CutPrefix(texts[name], "{"); ok {
			inner, ok = strings.CutSuffix(inner, "}")
			m.number = ok && numbers[inner]
		}
		var err error
		if m.value, err = parseRaw(texts[name], values); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf(`expected members, such as { status = "{status}", uri = "{target}" }`)
	}
	return func(b []byte, e *entry, c *clock) []byte {
		begin := len(b)
		for i := range all {
			m := &all[i]
			c.raw = true
			c.value = m.value(c.value[:0], e, c)
			c.raw = false
			switch {
			case len(c.value) == 0:
			case m.number:
				b = append(append(append(b, `,"`...), m.name...), `":`...)
				b = append(b, c.value...)
			default:
				b = appendString(b, m.name, c.value, c.limit)
			}
		}
		if len(b) == begin {
			return append(b, "{}\n"...)
		}
		b[begin] = '{' // in the place of the first comma
		return append(b, "}\n"...)
	}, nil
}

// parseRaw returns a format without escapes, in which a placeholder without a value is empty. It is
// used while clock.raw is set.
func parseRaw(text string, texts *placeholder.Maps) (lineFormat, error) {
	pieces, err := template.Parse(text, knownTo(texts))
	if err != nil {
		return nil, err
	}
	if foreign := template.Foreign(text); foreign != "" {
		return nil, fmt.Errorf("%s: placeholders are written in braces (known: %s)", foreign,
			template.List(knownTo(texts)))
	}
	fields := make([]lineFormat, len(pieces))
	for i, p := range pieces {
		if p.Name != "" {
			fields[i] = fieldOf(p.Name, texts)
		}
	}
	return func(b []byte, e *entry, c *clock) []byte {
		for i, f := range fields {
			if f == nil {
				b = append(b, pieces[i].Text...)
			} else {
				b = f(b, e, c)
			}
		}
		return b
	}, nil
}
