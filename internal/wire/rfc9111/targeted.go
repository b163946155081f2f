package rfc9111

import (
	"strconv"
	"strings"
	"time"

	"github.com/lwango/lwango/internal/base/ascii"
)

// A dictionary is what a targeted field says. It reads CDN-Cache-Control, which is a dictionary of
// structured fields (RFC 9213 section 2.1, RFC 9651 section 3.2): stricter than Cache-Control, so
// that two caches read it in one way. Of several field lines each is a part (section 4.2 there).
type dictionary struct {
	control Response
	members int
	failed  bool
	content bool // Surrogate-Control says what has to be made of the body
}

// add takes a field line. One that is no part of a dictionary fails the whole field, as does a
// directive whose value has another type than the directive: then the field says nothing at all,
// and Cache-Control counts (RFC 9213 section 2.1).
func (d *dictionary) add(line string) {
	p := sfParser{s: strings.Trim(line, " ")}
	for p.s != "" && !d.failed {
		key, ok := p.key()
		item := sfItem{kind: sfTrue}
		if ok && p.take('=') {
			item, ok = p.item()
		}
		d.failed = !ok || !p.parameters() || !d.member(key, item)
		d.members++
		if p.s = ascii.TrimOWS(p.s); p.s == "" {
			return
		}
		comma := p.take(',')
		p.s = ascii.TrimOWS(p.s)
		d.failed = d.failed || !comma || p.s == "" // a comma at the end is wrong, too
	}
}

// member takes a directive. The last one of a name counts (RFC 9651 section 4.2.2).
func (d *dictionary) member(key string, item sfItem) (ok bool) {
	c := &d.control
	switch seconds, flag := c.named(key); {
	case seconds != nil:
		*seconds = time.Duration(max(0, min(item.number, maxDelta))) * time.Second
		return item.kind == sfInteger
	case c.listed(flag) && item.kind == sfString:
		c.Omitted = append(c.Omitted, item.text)
	case flag != nil:
		*flag = item.kind == sfTrue
		return item.kind == sfTrue || item.kind == sfFalse
	}
	return true
}

// Name is what this cache calls itself: in Cache-Status, and to applications that send
// Surrogate-Control.
const Name = "lwango"

// Capability is the value of Surrogate-Capability in requests, which tells an application that its
// Surrogate-Control is read, and how to address it.
const Capability = Name + `="Surrogate/1.0"`

// addSurrogate takes a line of Surrogate-Control, which some applications send for caches in front
// of them: a Note of the W3C, Edge Architecture, of 2001. It is written as Cache-Control is; a
// directive may have the name of the cache it is for behind it, and a number the time for which a
// stale answer will do.
func (d *dictionary) addSurrogate(line string) {
	ascii.EachElement(line, func(element string) bool {
		directive, target, targeted := strings.Cut(element, ";")
		if name, _, _ := strings.Cut(directive, "="); ascii.EqualFold(ascii.TrimOWS(name), "content") {
			d.content = true
		}
		if !targeted || ascii.TrimOWS(target) == Name {
			directives(directive, d.surrogate)
		}
		return true
	})
}

func (d *dictionary) surrogate(name, argument string, _ bool) {
	c := &d.control
	switch {
	case ascii.EqualFold(name, "max-age"):
		fresh, stale, also := strings.Cut(argument, "+")
		set(&c.MaxAge, fresh)
		if also {
			set(&c.StaleWhileRevalidate, stale)
		}
	case ascii.EqualFold(name, "no-store"):
		c.NoStore = true
	default:
		return
	}
	d.members++
}

// target replaces what Cache-Control and Expires say by the targeted field, and reports true,
// unless that is empty or invalid (RFC 9213 section 2.2).
func (r *Response) target(d *dictionary) bool {
	if d == nil || d.failed || d.members == 0 {
		return false
	}
	c := &d.control
	r.MaxAge, r.SMaxAge = c.MaxAge, c.SMaxAge
	r.StaleWhileRevalidate, r.StaleIfError = c.StaleWhileRevalidate, c.StaleIfError
	r.Public, r.Private, r.NoCache, r.NoStore = c.Public, c.Private, c.NoCache, c.NoStore
	r.NoTransform, r.MustUnderstand = c.NoTransform, c.MustUnderstand
	r.MustRevalidate, r.ProxyRevalidate = c.MustRevalidate, c.ProxyRevalidate
	r.Omitted = append(r.Omitted, c.Omitted...)
	r.Expires, r.HasExpires, r.Targeted = 0, false, true
	return true
}

// accel replaces what Cache-Control and Expires say by the value of X-Accel-Expires, as nginx does,
// and reports true, unless that is empty or invalid. The value is for how many seconds the server
// in front keeps the answer, 0 for not at all; or, after an "@", the Unix time until which it does.
// For how long a stale answer may be sent it does not say, so Cache-Control still does.
func (r *Response) accel(value string) bool {
	if value == "" {
		return false
	}
	until, absolute := strings.CutPrefix(value, "@")
	d := dictionary{control: noDirectives(), members: 1}
	var at int64
	if absolute {
		var err error
		if at, err = strconv.ParseInt(until, 10, 64); err != nil || at < 0 {
			return false
		}
	} else {
		seconds, ok := delta(value)
		if !ok {
			return false
		}
		d.control.MaxAge, d.control.NoStore = seconds, seconds == 0
	}
	if !r.NoCache && !r.MustRevalidate && !r.ProxyRevalidate {
		d.control.StaleWhileRevalidate, d.control.StaleIfError = r.StaleWhileRevalidate, r.StaleIfError
	}
	r.target(&d)
	r.Expires, r.HasExpires, r.FromNow = at, absolute, true
	return true
}

// sfKind is the type of a structured value, as far as directives tell types apart.
type sfKind uint8

const (
	sfOther sfKind = iota // decimal, token, date, byte sequence, display string, inner list
	sfInteger
	sfString
	sfTrue
	sfFalse
)

type sfItem struct {
	kind   sfKind
	number int64
	text   string // of a string, with its escapes
}

// sfParser parses structured fields from the left (RFC 9651 section 4.2).
type sfParser struct{ s string }

func (p *sfParser) take(c byte) bool {
	if p.s == "" || p.s[0] != c {
		return false
	}
	p.s = p.s[1:]
	return true
}

// cut takes the first n bytes.
func (p *sfParser) cut(n int) string {
	head := p.s[:n]
	p.s = p.s[n:]
	return head
}

// key parses a key (section 4.2.3.3).
func (p *sfParser) key() (string, bool) {
	n := 0
	for n < len(p.s) {
		c := p.s[n]
		first := 'a' <= c && c <= 'z' || c == '*'
		if !first && (n == 0 || !isDigit(c) && c != '_' && c != '-' && c != '.') {
			break
		}
		n++
	}
	return p.cut(n), n > 0
}

// item parses a bare item or an inner list (sections 4.2.1.2 and 4.2.3.1).
func (p *sfParser) item() (sfItem, bool) {
	if !p.take('(') {
		return p.bare()
	}
	for {
		p.s = strings.TrimLeft(p.s, " ")
		if p.take(')') {
			return sfItem{}, true
		}
		if _, ok := p.bare(); !ok || !p.parameters() {
			return sfItem{}, false
		}
		if p.s == "" || p.s[0] != ' ' && p.s[0] != ')' {
			return sfItem{}, false
		}
	}
}

func (p *sfParser) bare() (sfItem, bool) {
	if p.s == "" {
		return sfItem{}, false
	}
	switch c := p.s[0]; {
	case c == '-' || isDigit(c):
		return p.number()
	case c == '"':
		p.s = p.s[1:]
		text, ok := p.quoted()
		return sfItem{kind: sfString, text: text}, ok
	case c == '*' || isLetter(c):
		return sfItem{}, p.token()
	case c == ':':
		p.s = p.s[1:]
		return sfItem{}, p.bytes()
	case c == '?':
		p.s = p.s[1:]
		switch {
		case p.take('1'):
			return sfItem{kind: sfTrue}, true
		case p.take('0'):
			return sfItem{kind: sfFalse}, true
		}
	case c == '@':
		p.s = p.s[1:]
		n, ok := p.number()
		return sfItem{}, ok && n.kind == sfInteger
	case strings.HasPrefix(p.s, `%"`):
		p.s = p.s[2:]
		return sfItem{}, p.display()
	}
	return sfItem{}, false
}

// number parses an integer of at most 15 digits, or a decimal of at most 12 and 3 (section 4.2.4).
func (p *sfParser) number() (sfItem, bool) {
	negative := p.take('-')
	whole := p.digits()
	if whole == "" {
		return sfItem{}, false
	}
	if p.take('.') {
		part := p.digits()
		return sfItem{}, len(whole) <= 12 && 1 <= len(part) && len(part) <= 3
	}
	if len(whole) > 15 {
		return sfItem{}, false
	}
	var n int64
	for i := range len(whole) {
		n = n*10 + int64(whole[i]-'0')
	}
	if negative {
		n = -n
	}
	return sfItem{kind: sfInteger, number: n}, true
}

func (p *sfParser) digits() string {
	n := 0
	for n < len(p.s) && isDigit(p.s[n]) {
		n++
	}
	return p.cut(n)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// quoted parses the rest of a string (section 4.2.5).
func (p *sfParser) quoted() (string, bool) {
	for i := 0; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '\\':
			if i++; i == len(p.s) || p.s[i] != '"' && p.s[i] != '\\' {
				return "", false
			}
		case c == '"':
			text := p.cut(i)
			p.s = p.s[1:]
			return text, true
		case c < 0x20 || c > 0x7e:
			return "", false
		}
	}
	return "", false
}

// token parses a token, whose first character is a good one (section 4.2.6).
func (p *sfParser) token() bool {
	n := 1
	for n < len(p.s) && (p.s[n] == ':' || p.s[n] == '/' || isToken(p.s[n])) {
		n++
	}
	p.cut(n)
	return true
}

func isToken(c byte) bool {
	return isLetter(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func isLetter(c byte) bool { l := ascii.Lower(c); return 'a' <= l && l <= 'z' }

// bytes parses the rest of a byte sequence (section 4.2.7): base64, whose padding may be wrong.
func (p *sfParser) bytes() bool {
	for i := range len(p.s) {
		c := p.s[i]
		if c == ':' {
			p.cut(i + 1)
			return true
		}
		if !isDigit(c) && !isLetter(c) && c != '+' && c != '/' && c != '=' {
			return false
		}
	}
	return false
}

// display parses the rest of a display string (section 4.2.10), but for its UTF-8.
func (p *sfParser) display() bool {
	for i := 0; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '"':
			p.cut(i + 1)
			return true
		case c == '%':
			if i+2 >= len(p.s) || !isHex(p.s[i+1]) || !isHex(p.s[i+2]) {
				return false
			}
			i += 2
		case c < 0x20 || c > 0x7e:
			return false
		}
	}
	return false
}

func isHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' }

// parameters passes over parameters, which mean nothing here (RFC 9213 section 2.1).
func (p *sfParser) parameters() bool {
	for p.take(';') {
		p.s = strings.TrimLeft(p.s, " ")
		if _, ok := p.key(); !ok {
			return false
		}
		if p.take('=') {
			if _, ok := p.bare(); !ok {
				return false
			}
		}
	}
	return true
}
