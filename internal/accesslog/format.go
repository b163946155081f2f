package accesslog

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/template"
)

// logField appends what stands for a placeholder of a format.
type logField func(b []byte, e *conn.AccessEntry, c *clock) []byte

// logFields are the placeholders of formats.
var logFields = map[string]logField{
	"remote": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendRemote(b, e.Remote)
	},
	"user": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendUser(b, e.User, c.limit)
	},
	"time": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return append(b, c.common(e.Time)...)
	},
	"time_iso8601": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return c.appendISO(b, e.Time)
	},
	"request": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendRequest(b, e, c.limit)
	},
	"method": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendOrDash(b, e.Method, c.limit)
	},
	"target": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendOrDash(b, e.Target, c.limit)
	},
	"proto": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendOrDash(b, e.Proto, c.limit)
	},
	"scheme": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return append(b, scheme(e)...)
	},
	"host": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendOrDash(b, e.Host, c.limit)
	},
	"status": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return strconv.AppendInt(b, int64(e.Status), 10)
	},
	"bytes": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return strconv.AppendInt(b, e.Bytes, 10)
	},
	"duration": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendSeconds(b, e.Duration)
	},
	"referer": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendOrDash(b, e.Referer, c.limit)
	},
	"user_agent": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendOrDash(b, e.UserAgent, c.limit)
	},
	"request_id": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendOrDash(b, e.ID, c.limit)
	},
	"bytes_in": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return strconv.AppendInt(b, e.Received, 10)
	},
	"tls_version": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendOrDash(b, tlsVersion(e.TLSVersion), c.limit)
	},
	"tls_cipher": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendOrDash(b, tlsCipher(e.CipherSuite), c.limit)
	},
	"upstream": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendOrDash(b, e.Upstream, c.limit)
	},
	"upstream_address": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendOrDash(b, e.UpstreamAddress, c.limit)
	},
	"upstream_split": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendOrDash(b, e.UpstreamSplit, c.limit)
	},
	"upstream_tries": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return strconv.AppendInt(b, int64(e.UpstreamTries), 10)
	},
	"upstream_connect": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendSecondsOrDash(b, e.UpstreamConnect)
	},
	"upstream_first_byte": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendSecondsOrDash(b, e.UpstreamFirst)
	},
	"upstream_time": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendSecondsOrDash(b, e.UpstreamTime)
	},
	"cache": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		return appendOrDash(b, e.Cache.String(), c.limit)
	},
	"close": func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		if e.CloseCode == 0 {
			return append(b, '-')
		}
		return strconv.AppendInt(b, int64(e.CloseCode), 10)
	},
}

// parseFormat returns what `format` of [access_log] stands for: a name, or a text with
// placeholders.
func parseFormat(format string) (lineFormat, error) {
	known := slices.Sorted(maps.Keys(logFields))
	switch format {
	case "combined", "":
		return appendCombined, nil
	case "common":
		return appendCommon, nil
	case "json":
		return appendJSON, nil
	}
	text, err := template.Parse(format, known)
	if err != nil {
		return nil, err
	}
	if text.Literal() {
		return nil, fmt.Errorf(`expected "combined", "common", "json" or a text with placeholders `+
			"(known: %s), found %q", template.List(known), format)
	}
	if foreign := template.Foreign(format); foreign != "" {
		return nil, fmt.Errorf("%s: placeholders are written in braces (known: %s)", foreign,
			template.List(known))
	}
	for _, p := range text {
		for _, c := range p.Text {
			if c < ' ' && c != '\t' || c == utf8.RuneError {
				return nil, errors.New("a line of the log has no control characters")
			}
		}
	}
	fields := make([]logField, len(text)) // nil: a literal text
	for i, p := range text {
		fields[i] = logFields[p.Name]
	}
	return func(b []byte, e *conn.AccessEntry, c *clock) []byte {
		for i, f := range fields {
			if f == nil {
				b = append(b, text[i].Text...)
			} else {
				b = f(b, e, c)
			}
		}
		return append(b, '\n')
	}, nil
}

// appendJSON appends an object in one line. What a request does not have is left out.
func appendJSON(b []byte, e *conn.AccessEntry, c *clock) []byte {
	b = append(b, `{"time":"`...)
	b = c.appendISO(b, e.Time)
	b = append(b, `","request_id":"`...)
	b = append(b, e.ID...) // of letters that need no escape, see conn.Request.ID
	b = append(b, `","remote":"`...)
	b = append(appendRemote(b, e.Remote), '"')
	b = appendMember(b, "user", e.User, c.limit)
	if e.Method == "" {
		b = appendMember(b, "line", e.Line, c.limit)
	} else {
		b = append(b, `,"method":"`...)
		b = append(b, e.Method...) // a known one
		b = append(b, `","scheme":"`...)
		b = append(b, scheme(e)...)
		b = append(b, '"')
		b = appendMember(b, "host", e.Host, c.limit)
		b = appendMember(b, "target", e.Target, c.limit)
		b = append(b, `,"proto":"`...)
		b = append(b, e.Proto...)
		b = append(b, '"')
	}
	if e.TLSVersion != 0 {
		b = appendMember(b, "tls_version", tlsVersion(e.TLSVersion), c.limit)
		b = appendMember(b, "tls_cipher", tlsCipher(e.CipherSuite), c.limit)
	}
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(e.Status), 10)
	b = append(b, `,"bytes":`...)
	b = strconv.AppendInt(b, e.Bytes, 10)
	b = append(b, `,"bytes_in":`...)
	b = strconv.AppendInt(b, e.Received, 10)
	b = append(b, `,"duration":`...)
	b = appendSeconds(b, e.Duration)
	if e.Upstream != "" {
		b = appendMember(b, "upstream", e.Upstream, c.limit)
		if e.UpstreamSplit != "" {
			b = appendMember(b, "upstream_split", e.UpstreamSplit, c.limit)
		}
		if e.UpstreamTries > 0 {
			b = appendMember(b, "upstream_address", e.UpstreamAddress, c.limit)
			b = append(b, `,"upstream_tries":`...)
			b = strconv.AppendInt(b, int64(e.UpstreamTries), 10)
			if e.UpstreamConnect > 0 {
				b = append(b, `,"upstream_connect":`...)
				b = appendSeconds(b, e.UpstreamConnect)
			}
		}
		if e.UpstreamFirst > 0 {
			b = append(b, `,"upstream_first_byte":`...)
			b = appendSeconds(b, e.UpstreamFirst)
		}
		b = append(b, `,"upstream_time":`...)
		b = appendSeconds(b, e.UpstreamTime)
	}
	b = appendMember(b, "cache", e.Cache.String(), c.limit)
	b = appendMember(b, "referer", e.Referer, c.limit)
	b = appendMember(b, "user_agent", e.UserAgent, c.limit)
	if e.CloseCode != 0 {
		b = append(b, `,"close":`...)
		b = strconv.AppendInt(b, int64(e.CloseCode), 10)
	}
	return append(b, '}', '\n')
}

// appendMember appends a member whose value is a string, unless that is empty. Bytes that are not
// UTF-8 become U+FFFD: JSON has no other way (RFC 8259 section 8.1). A value of more than limit
// bytes, as escaped, ends in cutMark.
func appendMember[T string | []byte](b []byte, name string, text T, limit int) []byte {
	if len(text) == 0 {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':', '"')
	const hex = "0123456789abcdef"
	cut := newCut(b, limit)
	for from := 0; ; {
		i := from
		for i < len(text) && plainText[text[i]] {
			i++
		}
		b = append(b, text[from:i]...)
		if i == len(text) || cut.reached(b) {
			return append(cut.end(b), '"')
		}
		begin := len(b)
		from = i + 1
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < utf8.RuneSelf: // a control character
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			r, n := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
			if 0x80 <= r && r < 0xa0 { // a control character, also to a terminal
				b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
			} else {
				b = utf8.AppendRune(b, r)
			}
			from = i + n
		}
		cut.whole(begin, len(b))
	}
}

// plainText has the bytes that stand for themselves in a line, of whichever format.
var plainText = func() (t [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// plainWord is the same for a word that ends at a space.
var plainWord = func() [256]bool {
	t := plainText
	t[' '] = false
	return t
}()

// appendSeconds appends a duration in seconds, to the microsecond.
func appendSeconds(b []byte, d time.Duration) []byte {
	us := (max(d, 0) + 500*time.Nanosecond).Microseconds()
	b = append(strconv.AppendInt(b, us/1e6, 10), '.')
	return appendDigits(b, int(us%1e6), 1e5)
}

// appendDigits appends n in decimal, with as many digits as unit has.
func appendDigits(b []byte, n, unit int) []byte {
	for ; unit > 0; unit /= 10 {
		b = append(b, byte('0'+n/unit%10))
	}
	return b
}

func appendSecondsOrDash(b []byte, d time.Duration) []byte {
	if d <= 0 {
		return append(b, '-')
	}
	return appendSeconds(b, d)
}

// tlsVersion returns the name of a version as nginx and OpenSSL write it, "" for none.
func tlsVersion(v uint16) string {
	switch v {
	case 0:
		return ""
	case tls.VersionTLS13:
		return "TLSv1.3"
	case tls.VersionTLS12:
		return "TLSv1.2"
	}
	return tls.VersionName(v)
}

// tlsCipher returns the name of a cipher suite, "" for none. (tls.CipherSuiteName makes a list of
// all of them at each call.)
func tlsCipher(id uint16) string { return cipherNames()[id] }

var cipherNames = sync.OnceValue(func() map[uint16]string {
	names := map[uint16]string{}
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		names[s.ID] = s.Name
	}
	return names
})

func scheme(e *conn.AccessEntry) string {
	if e.Secure {
		return "https"
	}
	return "http"
}
