package accesslog

import (
	"strconv"
	"time"

	"github.com/lwango/lwango/conn"
)

// lineFormat appends the line of a request. The formats are those of NCSA's and Apache's servers,
// which every tool reads. As in nginx, \xHH replaces bytes by which a client could forge a line or
// confuse a terminal. See append for how long a line may be.
type lineFormat func(b []byte, e *entry, c *clock) []byte

type entry = conn.AccessEntry

// appendCommon appends `remote - user [time] "request line" status bytes`.
func appendCommon(b []byte, e *entry, c *clock) []byte {
	return appendEnd(appendFields(b, e, c), e)
}

// appendCombined appends the same with referrer and user agent.
func appendCombined(b []byte, e *entry, c *clock) []byte {
	b = appendFields(b, e, c)
	b = append(b, ` "`...)
	b = appendOrDash(b, e.Referer, c.limit)
	b = append(b, `" "`...)
	b = appendOrDash(b, e.UserAgent, c.limit)
	return appendEnd(append(b, '"'), e)
}

// appendEnd ends a line. For a connection that a handler has taken over, such as a WebSocket, it
// appends the duration in seconds and the close code, if that is known.
func appendEnd(b []byte, e *entry) []byte {
	if e.Hijacked {
		b = append(b, " duration="...)
		b = strconv.AppendFloat(b, e.Duration.Seconds(), 'f', 3, 64)
		if e.CloseCode != 0 {
			b = append(b, " close="...)
			b = strconv.AppendInt(b, int64(e.CloseCode), 10)
		}
	}
	return append(b, '\n')
}

func appendFields(b []byte, e *entry, c *clock) []byte {
	b = appendRemote(b, e.Remote)
	b = append(b, " - "...)
	b = appendUser(b, e.User, c.limit)
	b = append(b, " ["...)
	b = append(b, c.common(e.Time)...)
	b = append(b, `] "`...)
	b = appendRequest(b, e, c.limit)
	b = append(b, `" `...)
	b = strconv.AppendInt(b, int64(e.Status), 10)
	b = append(b, ' ')
	if e.Bytes == 0 {
		return append(b, '-') // for "nothing" in the common log format
	}
	return strconv.AppendInt(b, e.Bytes, 10)
}

// appendRequest appends the request line, or what the client has sent instead.
func appendRequest(b []byte, e *entry, limit int) []byte {
	if e.Method == "" {
		return appendOrDash(b, e.Line, limit)
	}
	b = appendEscaped(b, e.Method, &plainWord, limit)
	b = append(b, ' ')
	b = appendEscaped(b, e.Target, &plainText, limit)
	b = append(b, ' ')
	return appendEscaped(b, e.Proto, &plainWord, limit)
}

// appendUser appends the user's name. A space would look like the end of the field.
func appendUser(b []byte, user string, limit int) []byte {
	if user == "" {
		return append(b, '-')
	}
	return appendEscaped(b, user, &plainWord, limit)
}

// clock caches the texts of a second, for the many requests of the same second. A format uses one
// of the two. While a line is formed, it also has the greatest length of a client's text.
type clock struct {
	local, utc secondText

	limit int // of a text that a client wrote, in bytes as the line has it

	part []byte // of a request, not yet escaped

	// While raw is set, placeholders are appended without escapes, to value, and nothing for those
	// that have none.
	raw   bool
	value []byte
}

// secondText is the text of a second.
type secondText struct {
	second int64
	text   []byte // nil: none yet
}

func (s *secondText) is(t time.Time) bool { return s.text != nil && s.second == t.Unix() }

// common returns the local time as the common format has it.
func (c *clock) common(t time.Time) []byte {
	if s := &c.local; !s.is(t) {
		s.second, s.text = t.Unix(), t.Local().AppendFormat(s.text[:0], "02/Jan/2006:15:04:05 -0700")
	}
	return c.local.text
}

// appendISO appends the time in UTC with milliseconds (RFC 3339).
func (c *clock) appendISO(b []byte, t time.Time) []byte {
	if s := &c.utc; !s.is(t) {
		s.second, s.text = t.Unix(), t.UTC().AppendFormat(s.text[:0], "2006-01-02T15:04:05.")
	}
	b = append(b, c.utc.text...)
	return append(appendDigits(b, t.Nanosecond()/1e6, 100), 'Z')
}
