package settings

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// lineMap maps the path of every key, table and list element of a text to the line where it is
// first written. A path is dotted, with the index of each list element: site[1].route[0].prefix.
type lineMap map[string]int

// childPath quotes keys that have dots or brackets of their own.
func childPath(parent, key string) string {
	if !bareKey(key) {
		key = strconv.Quote(key)
	}
	if parent == "" {
		return key
	}
	return parent + "." + key
}

func indexPath(parent string, i int) string { return parent + "[" + strconv.Itoa(i) + "]" }

func bareKey(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return r >= utf8.RuneSelf || !bareKeyByte(byte(r))
	})
}

func bareKeyByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' ||
		c == '-'
}

// scanLines finds the lines of all keys in one pass. The text has been accepted by the toml package
// before, so the scan need not judge it; but it must end, and not panic, on any text whatever. The
// fuzz test checks that.
func scanLines(text string) lineMap {
	// A byte order mark is skipped by the decoder as well, even one of UTF-16 in front of UTF-8.
	for _, mark := range []string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"} {
		if rest, ok := strings.CutPrefix(text, mark); ok {
			text = rest
			break
		}
	}
	s := &scanner{text: text, line: 1, lines: lineMap{}, counts: map[string]int{}}
	s.document()
	return s.lines
}

type scanner struct {
	text string
	pos  int
	line int

	lines  lineMap
	counts map[string]int // elements so far of each list written with [[ ]]
}

func (s *scanner) document() {
	table := ""
	for s.blank(); s.pos < len(s.text); s.blank() {
		before := s.pos
		if s.text[s.pos] == '[' {
			table = s.header()
		} else {
			s.pair(table)
		}
		if s.pos == before {
			s.advance() // only in text that is not TOML: go on after the byte that stopped us
		}
	}
}

// header reads [a.b] or [[a.b]] and returns the path that the following keys belong to. Each part
// that names a list of tables means its last element so far; [[a.b]] adds one to b.
func (s *scanner) header() (table string) {
	s.pos++
	list := s.accept('[')
	parts := s.key()
	for i, part := range parts {
		table = childPath(table, part)
		s.mark(table)
		n := s.counts[table]
		if list && i == len(parts)-1 {
			n++
			s.counts[table] = n
		}
		if n > 0 {
			table = indexPath(table, n-1)
			s.mark(table)
		}
	}
	s.accept(']')
	if list {
		s.accept(']')
	}
	return table
}

// pair reads key = value; a dotted key names a table for each of its parts.
func (s *scanner) pair(table string) {
	path := table
	for _, part := range s.key() {
		path = childPath(path, part)
		s.mark(path)
	}
	s.space()
	s.accept('=')
	s.space()
	s.value(path)
}

func (s *scanner) mark(path string) {
	if _, ok := s.lines[path]; !ok {
		s.lines[path] = s.line
	}
}

func (s *scanner) key() (parts []string) {
	for {
		s.space()
		switch c := s.peek(); {
		case c == '"':
			s.pos++
			parts = append(parts, s.basic(false))
		case c == '\'':
			s.pos++
			parts = append(parts, s.literal(false))
		case bareKeyByte(c):
			start := s.pos
			for bareKeyByte(s.peek()) {
				s.pos++
			}
			parts = append(parts, s.text[start:s.pos])
		default:
			return parts
		}
		s.space()
		if !s.accept('.') {
			return parts
		}
	}
}

func (s *scanner) value(path string) {
	switch c := s.peek(); c {
	case '"', '\'':
		read := s.basic
		if c == '\'' {
			read = s.literal
		}
		s.pos++
		long := strings.HasPrefix(s.text[s.pos:], string([]byte{c, c}))
		if long {
			s.pos += 2
		}
		read(long)
	case '[':
		s.pos++
		for i := 0; s.item(']'); i++ {
			at := indexPath(path, i)
			s.mark(at)
			s.value(at)
		}
	case '{':
		s.pos++
		for s.item('}') {
			s.pair(path)
		}
	default: // a number, a boolean, a date: none of them contains these
		for !strings.ContainsRune(",]}#\n\x00", rune(s.peek())) {
			s.pos++
		}
	}
}

// item goes to the next element of a list or an inline table and reports whether there is one
// before the end mark, which it consumes.
func (s *scanner) item(end byte) bool {
	for {
		s.blank()
		if s.accept(end) || s.pos >= len(s.text) {
			return false
		}
		if s.accept(',') {
			continue
		}
		if c := s.peek(); c == ']' || c == '}' || c == '=' || c == '.' || c == 0 || end == '}' &&
			!keyStart(c) {
			s.advance() // not TOML: skip what could not begin an element, or the loop would not end
			continue
		}
		return true
	}
}

func keyStart(c byte) bool { return bareKeyByte(c) || c == '"' || c == '\'' }

// basic reads a "string" or a """string""" after its opening quotes and returns its value.
func (s *scanner) basic(long bool) string {
	var b strings.Builder
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		switch {
		case c == '\\':
			s.pos++
			s.escape(&b)
		case c == '"' && !long:
			s.pos++
			return b.String()
		case c == '"' && s.closes(`"""`):
			return b.String()
		case c == '\n' && !long:
			return b.String()
		default:
			b.WriteByte(c)
			s.advance()
		}
	}
	return b.String()
}

// literal is basic for strings in single quotes, which have no escapes.
func (s *scanner) literal(long bool) string {
	start := s.pos
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		switch {
		case c == '\'' && !long:
			s.pos++
			return s.text[start : s.pos-1]
		case c == '\'' && s.closes(`'''`):
			return ""
		case c == '\n' && !long:
			return s.text[start:s.pos]
		default:
			s.advance()
		}
	}
	return s.text[start:]
}

// closes consumes the end of a long string. One or two quotes may stand before the closing three
// and belong to the value, so it ends after the last of up to five.
func (s *scanner) closes(quotes string) bool {
	if !strings.HasPrefix(s.text[s.pos:], quotes) {
		return false
	}
	s.pos += len(quotes)
	for range 2 {
		s.accept(quotes[0])
	}
	return true
}

func (s *scanner) escape(b *strings.Builder) {
	c := s.peek()
	s.advance()
	if i := strings.IndexByte(`btnfre"\`, c); i >= 0 {
		b.WriteByte("\b\t\n\f\r\x1b\"\\"[i])
		return
	}
	// Anything else is a line end in a long string; the value of those is not needed.
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	if digits == 0 || s.pos+digits > len(s.text) {
		return
	}
	n, err := strconv.ParseUint(s.text[s.pos:s.pos+digits], 16, 32)
	if err != nil {
		return
	}
	s.pos += digits
	b.WriteRune(min(rune(n&0x7fffffff), utf8.MaxRune+1))
}

// blank skips white space, line ends and comments.
func (s *scanner) blank() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.advance()
		case '#':
			for s.pos < len(s.text) && s.text[s.pos] != '\n' {
				s.pos++
			}
		default:
			return
		}
	}
}

func (s *scanner) space() {
	for s.peek() == ' ' || s.peek() == '\t' {
		s.pos++
	}
}

// advance passes one byte and counts lines.
func (s *scanner) advance() {
	if s.pos >= len(s.text) {
		return
	}
	if s.text[s.pos] == '\n' {
		s.line++
	}
	s.pos++
}

// peek returns the next byte, and 0 at the end: NUL is not allowed anywhere in TOML.
func (s *scanner) peek() byte {
	if s.pos >= len(s.text) {
		return 0
	}
	return s.text[s.pos]
}

func (s *scanner) accept(c byte) bool {
	if s.peek() != c || s.pos >= len(s.text) {
		return false
	}
	s.pos++
	return true
}
