package accesslog

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/template"
)

// Names returns the placeholders of formats that no other text has, or that are here as the log's
// other formats have them, sorted.
func Names() []string { return slices.Sorted(maps.Keys(logFields)) }

// partField is the format of a placeholder that all texts have. A request that could not be parsed,
// and a connection that was taken over, has none of these.
func partField(texts *placeholder.Maps, name string) lineFormat {
	text, _ := texts.Parse("{" + name + "}")
	return func(b []byte, e *entry, c *clock) []byte {
		c.part = c.part[:0]
		if req, ok := e.Layer(); ok {
			c.part = placeholder.Append(c.part, req.Request, text)
		}
		return c.appendWord(b, c.part)
	}
}

// answerField is the format of a field of the answer, as the handlers have set it. A connection
// that was taken over, and a request that could not be parsed, has none.
func answerField(name string) lineFormat {
	return func(b []byte, e *entry, c *clock) []byte { return c.appendWord(b, e.AnswerField(name)) }
}

// appendWord appends a text of others, in which a space would look like its end.
func (c *clock) appendWord(b []byte, text []byte) []byte {
	switch {
	case c.raw:
		return append(b, text...)
	case len(text) == 0:
		return append(b, '-')
	}
	return appendEscaped(b, text, &plainWord, c.limit)
}

// answerNames stands for the placeholders of fields of the answer.
const answerNames = "answer.*"

// knownTo returns the names of all placeholders.
func knownTo(texts *placeholder.Maps) []string {
	known := append(Names(), answerNames)
	for _, name := range texts.Names() {
		if logFields[name] == nil {
			known = append(known, name)
		}
	}
	return known
}

// fieldOf returns the format of a placeholder, of knownTo.
func fieldOf(name string, texts *placeholder.Maps) lineFormat {
	if f := logFields[name]; f != nil {
		return f
	}
	if field, ok := strings.CutPrefix(name, strings.TrimSuffix(answerNames, "*")); ok {
		return answerField(field)
	}
	return partField(texts, name)
}

// logFields are the placeholders of formats.
var logFields = map[string]lineFormat{
	"remote": func(b []byte, e *entry, _ *clock) []byte { return appendRemote(b, e.Remote) },
	"user": func(b []byte, e *entry, c *clock) []byte {
		if c.raw {
			return append(b, e.User...)
		}
		return appendUser(b, e.User, c.limit)
	},
	"time": func(b []byte, e *entry, c *clock) []byte {
		return append(b, c.common(e.Time)...)
	},
	"time_iso8601": func(b []byte, e *entry, c *clock) []byte { return c.appendISO(b, e.Time) },
	"request": func(b []byte, e *entry, c *clock) []byte {
		switch {
		case !c.raw:
			return appendRequest(b, e, c.limit)
		case e.Method == "":
			return append(b, e.Line...)
		}
		b = append(append(append(b, e.Method...), ' '), e.Target...)
		return append(append(b, ' '), e.Proto...)
	},
	"scheme":   textField(scheme),
	"duration": func(b []byte, e *entry, _ *clock) []byte { return appendSeconds(b, e.Duration) },

	"method":           textField(func(e *entry) string { return e.Method }),
	"target":           textField(func(e *entry) []byte { return e.Target }),
	"proto":            textField(func(e *entry) string { return e.Proto }),
	"host":             textField(func(e *entry) []byte { return e.Host }),
	"referer":          textField(func(e *entry) []byte { return e.Referer }),
	"user_agent":       textField(func(e *entry) []byte { return e.UserAgent }),
	"request_id":       textField(func(e *entry) []byte { return e.ID }),
	"tls_version":      textField(func(e *entry) string { return tlsVersion(e.TLSVersion) }),
	"tls_cipher":       textField(func(e *entry) string { return tlsCipher(e.CipherSuite) }),
	"cert_verify":      textField(func(e *entry) string { return e.ClientVerify }),
	"cert_subject":     textField(certSubject),
	"cert_fingerprint": textField(certFingerprint),
	"upstream":         textField(func(e *entry) string { return e.Upstream }),
	"upstream_address": textField(func(e *entry) string { return e.UpstreamAddress }),
	"upstream_split":   textField(func(e *entry) string { return e.UpstreamSplit }),
	"cache":            textField(func(e *entry) string { return e.Cache.String() }),

	"status":         numberField(func(e *entry) int64 { return int64(e.Status) }),
	"bytes":          numberField(func(e *entry) int64 { return e.Bytes }),
	"bytes_in":       numberField(func(e *entry) int64 { return e.Received }),
	"upstream_tries": numberField(func(e *entry) int64 { return int64(e.UpstreamTries) }),
	"close": func(b []byte, e *entry, c *clock) []byte {
		switch {
		case e.CloseCode != 0:
			return strconv.AppendInt(b, int64(e.CloseCode), 10)
		case c.raw:
			return b
		}
		return append(b, '-')
	},

	"upstream_connect":    secondsField(func(e *entry) time.Duration { return e.UpstreamConnect }),
	"upstream_first_byte": secondsField(func(e *entry) time.Duration { return e.UpstreamFirst }),
	"upstream_time":       secondsField(func(e *entry) time.Duration { return e.UpstreamTime }),
}

func textField[T string | []byte](of func(*entry) T) lineFormat {
	return func(b []byte, e *entry, c *clock) []byte {
		if c.raw {
			return append(b, of(e)...)
		}
		return appendOrDash(b, of(e), c.limit)
	}
}

func numberField(of func(*entry) int64) lineFormat {
	return func(b []byte, e *entry, _ *clock) []byte { return strconv.AppendInt(b, of(e), 10) }
}

func secondsField(of func(*entry) time.Duration) lineFormat {
	return func(b []byte, e *entry, c *clock) []byte {
		switch d := of(e); {
		case d > 0:
			return appendSeconds(b, d)
		case c.raw:
			return b
		}
		return append(b, '-')
	}
}

// parseFormat returns the lineFormat for `format` of [access_log], which is a name, or a text with
// placeholders.
func parseFormat(format string, texts *placeholder.Maps) (lineFormat, error) {
	switch format {
	case "combined", "":
		return appendCombined, nil
	case "common":
		return appendCommon, nil
	case "json":
		return appendJSON, nil
	}
	known := knownTo(texts)
	line, err := parseText(format, `"combined", "common", "json"`, known,
		func(name string) lineFormat { return fieldOf(name, texts) })
	if foreign := template.Foreign(format); err == nil && foreign != "" {
		err = fmt.Errorf("%s: placeholders are written in braces (known: %s)", foreign,
			template.List(known))
	}
	return line, err
}

// parseText returns the format for a text with placeholders. Its errors name the other formats.
func parseText[E any, F ~func(b []byte, e E, c *clock) []byte](
	format, others string, names []string, field func(name string) F,
) (F, error) {
	text, err := template.Parse(format, names)
	if err != nil {
		return nil, err
	}
	if text.Literal() {
		return nil, fmt.Errorf("expected %s or a text with placeholders (known: %s), found %q", others,
			template.List(names), format)
	}
	fields := make([]F, len(text)) // nil: a literal text
	for i, p := range text {
		if p.Name != "" {
			fields[i] = field(p.Name)
		}
		if strings.ContainsFunc(p.Text, func(c rune) bool {
			return c < ' ' && c != '\t' || c == utf8.RuneError
		}) {
			return nil, errors.New("a line of the log has no control characters")
		}
	}
	return func(b []byte, e E, c *clock) []byte {
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

// appendJSON appends an object in one line. It leaves out what a request does not have.
func appendJSON(b []byte, e *entry, c *clock) []byte {
	b = c.appendISO(append(b, `{"time":"`...), e.Time)
	b = appendString(append(b, '"'), "request_id", e.ID, c.limit)
	b = append(appendRemote(append(b, `,"remote":"`...), e.Remote), '"')
	b = appendMember(b, "user", e.User, c.limit)
	if e.Method == "" {
		b = appendMember(b, "line", e.Line, c.limit)
	} else {
		b = appendString(b, "method", e.Method, c.limit)
		b = appendString(b, "scheme", scheme(e), c.limit)
		b = appendMember(b, "host", e.Host, c.limit)
		b = appendMember(b, "target", e.Target, c.limit)
		b = appendString(b, "proto", e.Proto, c.limit)
	}
	if e.TLSVersion != 0 {
		b = appendMember(b, "tls_version", tlsVersion(e.TLSVersion), c.limit)
		b = appendMember(b, "tls_cipher", tlsCipher(e.CipherSuite), c.limit)
	}
	b = appendMember(b, "cert_verify", e.ClientVerify, c.limit)
	b = appendMember(b, "cert_subject", certSubject(e), c.limit)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(e.Status), 10)
	b = strconv.AppendInt(append(b, `,"bytes":`...), e.Bytes, 10)
	b = strconv.AppendInt(append(b, `,"bytes_in":`...), e.Received, 10)
	b = appendSeconds(append(b, `,"duration":`...), e.Duration)
	if e.Upstream != "" {
		b = appendMember(b, "upstream", e.Upstream, c.limit)
		b = appendMember(b, "upstream_split", e.UpstreamSplit, c.limit)
		if e.UpstreamTries > 0 {
			b = appendMember(b, "upstream_address", e.UpstreamAddress, c.limit)
			b = strconv.AppendInt(append(b, `,"upstream_tries":`...), int64(e.UpstreamTries), 10)
			if e.UpstreamConnect > 0 {
				b = appendSeconds(append(b, `,"upstream_connect":`...), e.UpstreamConnect)
			}
		}
		if e.UpstreamFirst > 0 {
			b = appendSeconds(append(b, `,"upstream_first_byte":`...), e.UpstreamFirst)
		}
		b = appendSeconds(append(b, `,"upstream_time":`...), e.UpstreamTime)
	}
	b = appendMember(b, "cache", e.Cache.String(), c.limit)
	b = appendMember(b, "referer", e.Referer, c.limit)
	b = appendMember(b, "user_agent", e.UserAgent, c.limit)
	if e.CloseCode != 0 {
		b = strconv.AppendInt(append(b, `,"close":`...), int64(e.CloseCode), 10)
	}
	return append(b, '}', '\n')
}

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

// certSubject returns the subject of the client's certificate if that is verified, else "".
func certSubject(e *entry) string {
	if e.ClientCertificate == nil || e.ClientVerify != "SUCCESS" {
		return ""
	}
	return e.ClientCertificate.Subject.String()
}

// certFingerprint returns the SHA-256 of the client's certificate in hexadecimal, "" for none.
func certFingerprint(e *entry) string {
	if e.ClientCertificate == nil {
		return ""
	}
	sum := sha256.Sum256(e.ClientCertificate.Raw)
	return hex.EncodeToString(sum[:])
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

func scheme(e *entry) string {
	if e.Secure {
		return "https"
	}
	return "http"
}
