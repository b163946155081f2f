package server

import (
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/template"
)

// logField appends what stands for a placeholder of a format. now is the time of the common format.
type logField func(b []byte, e *conn.AccessEntry, now []byte) []byte

// logFields are the placeholders of formats.
var logFields = map[string]logField{
	"remote": func(b []byte, e *conn.AccessEntry, _ []byte) []byte { return appendRemote(b, e.Remote) },
	"user":   func(b []byte, e *conn.AccessEntry, _ []byte) []byte { return appendUser(b, e.User) },
	"time":   func(b []byte, _ *conn.AccessEntry, now []byte) []byte { return append(b, now...) },
	"time_iso8601": func(b []byte, e *conn.AccessEntry, _ []byte) []byte {
		return appendTime(b, e.Time)
	},
	"request": func(b []byte, e *conn.AccessEntry, _ []byte) []byte { return appendRequest(b, e) },
	"method": func(b []byte, e *conn.AccessEntry, _ []byte) []byte {
		return appendOrDash(b, []byte(e.Method))
	},
	"target": func(b []byte, e *conn.AccessEntry, _ []byte) []byte { return appendOrDash(b, e.Target) },
	"proto": func(b []byte, e *conn.AccessEntry, _ []byte) []byte {
		return appendOrDash(b, []byte(e.Proto))
	},
	"scheme": func(b []byte, e *conn.AccessEntry, _ []byte) []byte { return append(b, scheme(e)...) },
	"host":   func(b []byte, e *conn.AccessEntry, _ []byte) []byte { return appendOrDash(b, e.Host) },
	"status": func(b []byte, e *conn.AccessEntry, _ []byte) []byte {
		return strconv.AppendInt(b, int64(e.Status), 10)
	},
	"bytes": func(b []byte, e *conn.AccessEntry, _ []byte) []byte {
		return strconv.AppendInt(b, e.Bytes, 10)
	},
	"duration": func(b []byte, e *conn.AccessEntry, _ []byte) []byte {
		return appendSeconds(b, e.Duration)
	},
	"referer": func(b []byte, e *conn.AccessEntry, _ []byte) []byte { return appendOrDash(b, e.Referer) },
	"user_agent": func(b []byte, e *conn.AccessEntry, _ []byte) []byte {
		return appendOrDash(b, e.UserAgent)
	},
	"close": func(b []byte, e *conn.AccessEntry, _ []byte) []byte {
		if e.CloseCode == 0 {
			return append(b, '-')
		}
		return strconv.AppendInt(b, int64(e.CloseCode), 10)
	},
}

// parseFormat returns what `format` of [access_log] stands for: a name, or a text with
// placeholders.
func parseFormat(format string) (lineFormat, error) {
	switch format {
	case "combined", "":
		return appendCombined, nil
	case "common":
		return appendCommon, nil
	case "json":
		return appendJSON, nil
	}
	text, err := template.Parse(format, sortedKeys(logFields))
	if err != nil {
		return nil, err
	}
	if text.Literal() {
		return nil, fmt.Errorf(`expected "combined", "common", "json" or a text with placeholders `+
			"(known: %s), found %q", template.List(sortedKeys(logFields)), format)
	}
	if foreign := template.Foreign(format); foreign != "" {
		return nil, fmt.Errorf("%s: placeholders are written in braces (known: %s)", foreign,
			template.List(sortedKeys(logFields)))
	}
	for _, p := range text {
		for _, c := range p.Text {
			if c < ' ' && c != '\t' || c == utf8.RuneError {
				return nil, errors.New("a line of the log has no control characters")
			}
		}
	}
	return func(b []byte, e *conn.AccessEntry, now []byte) []byte {
		for _, p := range text {
			if p.Name == "" {
				b = append(b, p.Text...)
			} else {
				b = logFields[p.Name](b, e, now)
			}
		}
		return append(b, '\n')
	}, nil
}

// appendJSON appends an object in one line. What a request does not have is left out.
func appendJSON(b []byte, e *conn.AccessEntry, _ []byte) []byte {
	b = append(b, `{"time":"`...)
	b = appendTime(b, e.Time)
	b = append(b, `","remote":"`...)
	b = append(appendRemote(b, e.Remote), '"')
	b = appendMember(b, "user", []byte(e.User))
	if e.Method == "" {
		b = appendMember(b, "line", e.Line)
	} else {
		b = appendMember(b, "method", []byte(e.Method))
		b = appendMember(b, "scheme", []byte(scheme(e)))
		b = appendMember(b, "host", e.Host)
		b = appendMember(b, "target", e.Target)
		b = appendMember(b, "proto", []byte(e.Proto))
	}
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(e.Status), 10)
	b = append(b, `,"bytes":`...)
	b = strconv.AppendInt(b, e.Bytes, 10)
	b = append(b, `,"duration":`...)
	b = appendSeconds(b, e.Duration)
	b = appendMember(b, "referer", e.Referer)
	b = appendMember(b, "user_agent", e.UserAgent)
	if e.CloseCode != 0 {
		b = append(b, `,"close":`...)
		b = strconv.AppendInt(b, int64(e.CloseCode), 10)
	}
	return append(b, '}', '\n')
}

// appendMember appends a member whose value is a string, unless that is empty. Bytes that are not
// UTF-8 become U+FFFD: JSON has no other way (RFC 8259 section 8.1).
func appendMember(b []byte, name string, text []byte) []byte {
	if len(text) == 0 {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':', '"')
	const hex = "0123456789abcdef"
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, n := utf8.DecodeRune(text[i:])
			if 0x80 <= r && r < 0xa0 { // a control character, also to a terminal
				b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
			} else {
				b = utf8.AppendRune(b, r)
			}
			i += n
			continue
		}
		i++
	}
	return append(b, '"')
}

// appendTime appends a time in UTC with milliseconds (RFC 3339).
func appendTime(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
}

// appendSeconds appends a duration in seconds, to the microsecond.
func appendSeconds(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, d.Seconds(), 'f', 6, 64)
}

func scheme(e *conn.AccessEntry) string {
	if e.Secure {
		return "https"
	}
	return "http"
}
