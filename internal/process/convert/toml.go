package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// table is a table of the result: comments, and keys in the order in which they were set.
type table struct {
	comments []string
	keys     []entry
}

// entry is a key with its value: a string, an int, a bool, a list of these, or a table, which
// stands on the same line.
type entry struct {
	key   string
	value any
}

// set gives a key its value, in place of the one that it has.
func (t *table) set(key string, value any) {
	for i := range t.keys {
		if t.keys[i].key == key {
			t.keys[i].value = value
			return
		}
	}
	t.keys = append(t.keys, entry{key, value})
}

// get returns the value of a key; nil if it has none.
func (t *table) get(key string) any {
	for _, e := range t.keys {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

// sub returns the table at a key, which it makes if there is none.
func (t *table) sub(key string) *table {
	if s, ok := t.get(key).(*table); ok {
		return s
	}
	s := new(table)
	t.set(key, s)
	return s
}

func (t *table) drop(key string) {
	for i, e := range t.keys {
		if e.key == key {
			t.keys = append(t.keys[:i:i], t.keys[i+1:]...)
			return
		}
	}
}

// first puts keys in front of the others, in their order.
func (t *table) first(keys ...string) {
	slices.SortStableFunc(t.keys, func(a, b entry) int {
		return rank(keys, a.key) - rank(keys, b.key)
	})
}

func rank(keys []string, key string) int {
	if i := slices.Index(keys, key); i >= 0 {
		return i
	}
	return len(keys)
}

func (t *table) empty() bool { return len(t.keys) == 0 }

// lines writes the comments and keys, a line for each.
func (t *table) lines(b *strings.Builder) {
	for _, c := range t.comments {
		for _, line := range wrapped(c) {
			b.WriteString("# " + line + "\n")
		}
	}
	for _, e := range t.keys {
		b.WriteString(bareKey(e.key) + " = ")
		writeValue(b, e.value, true)
		b.WriteString("\n")
	}
}

// wrapped cuts a comment into lines of at most 98 columns, where it has spaces.
func wrapped(text string) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > 98 {
			lines, line = append(lines, line), "  "+word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

var bare = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func bareKey(key string) string {
	if bare.MatchString(key) {
		return key
	}
	return quote(key)
}

func writeValue(b *strings.Builder, value any, long bool) {
	switch v := value.(type) {
	case string:
		b.WriteString(quote(v))
	case []string:
		writeList(b, v, long)
	case []*table:
		b.WriteString("[")
		for i, t := range v {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString("\n    ")
			writeValue(b, t, false)
		}
		b.WriteString(",\n]")
	case *table:
		b.WriteString("{ ")
		for i, e := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(bareKey(e.key) + " = ")
			writeValue(b, e.value, false)
		}
		b.WriteString(" }")
	default:
		fmt.Fprint(b, v)
	}
}

func writeList(b *strings.Builder, all []string, long bool) {
	quoted := make([]string, len(all))
	length := 0
	for i, s := range all {
		quoted[i] = quote(s)
		length += len(quoted[i]) + 2
	}
	if length < 80 || !long {
		b.WriteString("[" + strings.Join(quoted, ", ") + "]")
		return
	}
	b.WriteString("[\n")
	for _, q := range quoted {
		b.WriteString("    " + q + ",\n")
	}
	b.WriteString("]")
}

// quote writes a string. ${ stands for a variable of the environment, so it is doubled.
func quote(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "${", "$${")
	plain := true
	for _, r := range s {
		plain = plain && r >= ' ' && r != 0x7f && r != '\''
	}
	if plain && strings.ContainsAny(s, `\"`) {
		return "'" + s + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
