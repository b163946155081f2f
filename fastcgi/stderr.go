package fastcgi

import (
	"fmt"
	"log/slog"
	"unicode"
	"unicode/utf8"
)

const (
	stderrLine  = 4 << 10  // of one entry in the log
	stderrTotal = 16 << 10 // of one request
)

// stderr gathers what an application writes to STDERR for a request. It is logged as attributes,
// which the log escapes, so none of it can pass for a line of its own.
type stderr struct {
	text    []byte
	logged  int
	dropped int
}

func (s *stderr) add(p []byte) {
	n := min(len(p), stderrLine-len(s.text), stderrTotal-s.logged-len(s.text))
	s.text = append(s.text, p[:n]...)
	s.dropped += len(p) - n
}

// any reports whether there is anything to log.
func (s *stderr) any() bool { return len(s.text) > 0 || s.dropped > 0 }

// log logs what was gathered. The call does so whenever the application pauses.
func (s *stderr) log(l *slog.Logger, id, script string) {
	if len(s.text) > 0 || s.logged < stderrTotal {
		text := s.text
		for len(text) > 0 && (text[len(text)-1] == '\n' || text[len(text)-1] == '\r') {
			text = text[:len(text)-1]
		}
		args := []any{"request_id", id, "script", script, "message", printable(text)}
		if s.dropped > 0 {
			args = append(args, "dropped", s.dropped)
		}
		l.Warn("fastcgi: application writes to STDERR", args...)
	}
	s.logged += len(s.text)
	if s.dropped > 0 {
		s.logged = max(s.logged, stderrTotal) // the log says now that there is more
	}
	s.text, s.dropped = nil, 0
}

// printable replaces what could move a terminal's cursor, turn its text round or begin a line, even
// if the log does not escape it.
func printable(text []byte) string {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == '\n':
			out = append(out, " | "...)
		case r == '\r':
		case r == '\t':
			out = append(out, ' ')
		case r == utf8.RuneError && n == 1: // not UTF-8
			out = fmt.Appendf(out, "<%02x>", text[0])
		case !unicode.IsPrint(r):
			out = fmt.Appendf(out, "<%02x>", r)
		default:
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return string(out)
}
