package convert

import (
	"errors"
	"fmt"
	"strings"
)

// directive is a directive with its arguments and, if it has one, its block.
type directive struct {
	name   string
	args   []string
	block  []*directive
	braces bool // there is a block, perhaps an empty one

	file string // as it was named
	line int
	seq  int // its place among all that were read

	done bool // it was carried over, or something was said of it
}

// arg returns the argument i, counted from 0; "" if there are fewer.
func (d *directive) arg(i int) string {
	if 0 <= i && i < len(d.args) {
		return d.args[i]
	}
	return ""
}

// rest returns the arguments from i on.
func (d *directive) rest(i int) []string { return d.args[min(i, len(d.args)):] }

// last returns the last argument, and those before it.
func (d *directive) last() (arg string, before []string) {
	n := max(len(d.args)-1, 0)
	return d.arg(n), d.args[:n]
}

// text returns the directive on one line, without its block, and cut to a length that fits a
// report.
func (d *directive) text() string {
	var b strings.Builder
	b.WriteString(d.name)
	for _, a := range d.args {
		b.WriteByte(' ')
		if a == "" || strings.ContainsAny(a, " \t\r\n;{}\"'#") {
			b.WriteString("'" + a + "'")
		} else {
			b.WriteString(a)
		}
	}
	s := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(b.String(), "?"))
	const most = 90
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "..."
	}
	if d.braces {
		return s + " { ... }"
	}
	return s
}

// maxNesting bounds blocks in blocks; nginx itself has no more than five.
const maxNesting = 32

// scanner reads the text of a file.
type scanner struct {
	text string
	at   int
	line int
	file string
}

var errEnd = errors.New("unexpected end of the file")

func (s *scanner) errorf(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", s.file, line, fmt.Sprintf(format, args...))
}

// word returns the next word. special is ';', '{' or '}' for these outside of quotes, and 0 for
// other words. It returns errEnd at the end of the text.
func (s *scanner) word() (word string, special byte, err error) {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '\n':
			s.line++
			s.at++
		case space(c):
			s.at++
		case c == '#':
			end := strings.IndexByte(s.text[s.at:], '\n')
			if end < 0 {
				end = len(s.text) - s.at
			}
			s.at += end
		case c == ';' || c == '{' || c == '}':
			s.at++
			return "", c, nil
		case c == '"' || c == '\'':
			return s.quoted(c)
		default:
			return s.bare(), 0, nil
		}
	}
	return "", 0, errEnd
}

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func (s *scanner) quoted(quote byte) (string, byte, error) {
	begin := s.line
	var b strings.Builder
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case quote:
			s.at++
			if s.at < len(s.text) && !space(s.text[s.at]) &&
				!strings.ContainsRune(";{)", rune(s.text[s.at])) {
				return "", 0, s.errorf(s.line, "unexpected %q behind a quoted text", s.text[s.at])
			}
			return b.String(), 0, nil
		case '\\':
			s.escaped(&b)
		default:
			if c == '\n' {
				s.line++
			}
			b.WriteByte(c)
		}
	}
	return "", 0, s.errorf(begin, "a quoted text has no end")
}

// bare reads a word without quotes. A brace behind a $ is part of the word: ${name}.
func (s *scanner) bare() string {
	var b strings.Builder
	for ; s.at < len(s.text); s.at++ {
		c := s.text[s.at]
		switch {
		case space(c) || c == ';':
			return b.String()
		case c == '{' && !strings.HasSuffix(b.String(), "$"):
			return b.String()
		case c == '\\':
			s.escaped(&b)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// escaped writes what a backslash and the character behind it stand for. nginx takes the backslash
// away in front of quotes and backslashes alone, so that expressions need not double it.
func (s *scanner) escaped(b *strings.Builder) {
	if s.at+1 >= len(s.text) {
		b.WriteByte('\\')
		return
	}
	s.at++
	switch c := s.text[s.at]; c {
	case '"', '\'', '\\':
		b.WriteByte(c)
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case 'n':
		b.WriteByte('\n')
	default:
		if c == '\n' {
			s.line++
		}
		b.WriteByte('\\')
		b.WriteByte(c)
	}
}

// parse reads directives up to the end of the text.
func parse(file, text string) ([]*directive, error) {
	s := &scanner{text: text, line: 1, file: file}
	all, err := s.block(0)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// block reads directives up to the end of the block, or of the text at depth 0.
func (s *scanner) block(depth int) (all []*directive, err error) {
	if depth > maxNesting {
		return nil, s.errorf(s.line, "more than %d blocks in each other", maxNesting)
	}
	var d *directive
	for {
		word, special, err := s.word()
		switch {
		case errors.Is(err, errEnd):
			if depth > 0 || d != nil {
				return nil, s.errorf(s.line, "%v", errEnd)
			}
			return all, nil
		case err != nil:
			return nil, err
		case special == '}':
			if depth == 0 || d != nil {
				return nil, s.errorf(s.line, "unexpected }")
			}
			return all, nil
		case special != 0 && d == nil:
			return nil, s.errorf(s.line, "unexpected %c", special)
		case special == ';':
			all, d = append(all, d), nil
		case special == '{':
			d.braces = true
			if strings.HasSuffix(d.name, "_by_lua_block") {
				err = s.skip()
			} else {
				d.block, err = s.block(depth + 1)
			}
			if err != nil {
				return nil, err
			}
			all, d = append(all, d), nil
		case d == nil:
			d = &directive{name: word, file: s.file, line: s.line}
		default:
			d.args = append(d.args, word)
		}
	}
}

// skip passes over a block that is a program in another language.
func (s *scanner) skip() error {
	begin := s.line
	for depth := 1; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\n':
			s.line++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				s.at++
				return nil
			}
		}
	}
	return s.errorf(begin, "a block has no end")
}
