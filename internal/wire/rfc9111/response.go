package rfc9111

import (
	"bytes"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// A Response is what an answer says to caches. Its strings are parts of the fields it was read of.
type Response struct {
	Status int

	// Cache-Control (RFC 9111 section 5.2.2), or what a targeted field has in its place.
	// Durations are negative where the directive is absent; 0 also where it is invalid or there are
	// two that differ.
	MaxAge               time.Duration
	SMaxAge              time.Duration
	StaleWhileRevalidate time.Duration // RFC 5861
	StaleIfError         time.Duration // RFC 5861

	Public          bool
	Private         bool // without a list of fields; or Surrogate-Control has content
	NoCache         bool // without a list of fields
	NoStore         bool
	NoTransform     bool
	MustRevalidate  bool
	ProxyRevalidate bool
	MustUnderstand  bool
	// MaxAge or Expires is of X-Accel-Expires: it counts from now on, whatever the age
	FromNow  bool
	Targeted bool // these are of CDN-Cache-Control, X-Accel-Expires or Surrogate-Control

	// Omitted are the names of the fields that must not be kept, from no-cache="…", private="…" and
	// Connection: lists of tokens.
	Omitted []string

	// Instants are Unix seconds; 0 is none.
	Date         int64
	Expires      int64
	HasExpires   bool // there is an Expires field; an invalid one means the past
	LastModified int64
	Age          time.Duration

	ETag      string // "" if there is none, or none that is valid
	Vary      Vary   // of one name may be a part of its field
	SetCookie bool
	cookie    string // the value of Set-Cookie, if there is one
	Trailer   bool   // more fields may follow the body
}

// ReadResponse reads the fields of an answer in their order.
func ReadResponse(status int, fields iter.Seq2[string, string]) Response {
	var r ResponseReader
	r.Begin(status)
	for name, value := range fields {
		r.Add(name, value)
	}
	return *r.End()
}

// A ResponseReader reads an answer field by field. It allocates nothing where the answer has no
// rare field.
type ResponseReader struct {
	answer              Response
	targeted, surrogate *dictionary
	accel               string
	names               varyNames

	expires, date, modified, age bool // there was such a field
}

// Begin begins to read an answer. x is the zero ResponseReader.
func (x *ResponseReader) Begin(status int) {
	r := &x.answer
	r.MaxAge, r.SMaxAge, r.StaleWhileRevalidate, r.StaleIfError = unset, unset, unset, unset
	r.Status = status
}

// Add takes the next field.
func (x *ResponseReader) Add(name, value string) {
	r := &x.answer
	switch len(name) {
	case len(FieldAge):
		if ascii.EqualFold(name, FieldAge) && !x.age {
			x.age = true
			r.Age = age(value)
		}
	case len("Date"): // and ETag, Vary
		switch {
		case ascii.EqualFold(name, "Date") && !x.date:
			x.date = true
			r.Date = unixDate(value)
		case ascii.EqualFold(name, "ETag") && r.ETag == "" && http1.ValidETag(value):
			r.ETag = value
		case ascii.EqualFold(name, "Vary"):
			x.names.add(value)
		}
	case len("Expires"): // and Trailer
		switch {
		case ascii.EqualFold(name, "Expires"):
			at := unix(value)
			if x.expires && at != r.Expires {
				at = 0 // two that differ: stale (RFC 9111 section 4.2.1)
			}
			r.Expires, r.HasExpires, x.expires = at, true, true
		case ascii.EqualFold(name, "Trailer"):
			r.Trailer = true
		}
	case len("Set-Cookie"): // and Connection
		switch {
		case ascii.EqualFold(name, "Set-Cookie"):
			if r.cookie = value; r.SetCookie {
				r.cookie = ""
			}
			r.SetCookie = true
		case ascii.EqualFold(name, "Connection"):
			r.Omitted = append(r.Omitted, value)
		}
	case len(FieldXAccelExpires):
		if x.accel == "" && ascii.EqualFold(name, FieldXAccelExpires) {
			x.accel = value
		}
	case len("Cache-Control"): // and Last-Modified
		switch {
		case ascii.EqualFold(name, "Cache-Control"):
			directives(value, r.directive)
		case ascii.EqualFold(name, "Last-Modified") && !x.modified:
			x.modified = true
			r.LastModified = unix(value)
		}
	case len(FieldCDNCacheControl): // and Surrogate-Control
		switch {
		case ascii.EqualFold(name, FieldCDNCacheControl):
			if x.targeted == nil {
				x.targeted = &dictionary{control: noDirectives()}
			}
			x.targeted.add(value)
		case ascii.EqualFold(name, FieldSurrogateControl):
			if x.surrogate == nil {
				x.surrogate = &dictionary{control: noDirectives()}
			}
			x.surrogate.addSurrogate(value)
		}
	}
}

// End returns what the answer says, which is in x. A Set-Cookie that private or no-cache names is
// none, since it is not kept.
func (x *ResponseReader) End() *Response {
	r := &x.answer
	r.Vary = x.names.vary()
	if !r.target(x.targeted) && !r.accel(x.accel) {
		r.target(x.surrogate)
	}
	if x.surrogate != nil && x.surrogate.content {
		r.Private = true // for the server that can process it, which has asked for it
	}
	if r.SetCookie && r.omits("Set-Cookie") {
		r.SetCookie = false
	}
	return r
}

// noDirectives returns a Response in which each directive is absent.
func noDirectives() Response {
	return Response{MaxAge: unset, SMaxAge: unset, StaleWhileRevalidate: unset, StaleIfError: unset}
}

// named returns what a directive sets, whose name is in small letters: a number of seconds or a
// flag; neither for a name that means nothing here.
func (r *Response) named(name string) (seconds *time.Duration, flag *bool) {
	switch name {
	case "max-age":
		return &r.MaxAge, nil
	case "s-maxage":
		return &r.SMaxAge, nil
	case "stale-while-revalidate":
		return &r.StaleWhileRevalidate, nil
	case "stale-if-error":
		return &r.StaleIfError, nil
	case "public":
		return nil, &r.Public
	case "private":
		return nil, &r.Private
	case "no-cache":
		return nil, &r.NoCache
	case "no-store":
		return nil, &r.NoStore
	case "no-transform":
		return nil, &r.NoTransform
	case "must-revalidate":
		return nil, &r.MustRevalidate
	case "proxy-revalidate":
		return nil, &r.ProxyRevalidate
	case "must-understand":
		return nil, &r.MustUnderstand
	}
	return nil, nil
}

// listed reports whether flag is that of a directive that may have a list of fields.
func (r *Response) listed(flag *bool) bool { return flag == &r.Private || flag == &r.NoCache }

func (r *Response) directive(name, argument string, bare bool) {
	switch seconds, flag := r.named(ascii.ToLower(name)); {
	case seconds != nil:
		set(seconds, argument)
	case r.listed(flag):
		*flag = r.list(argument, bare) || *flag
	case flag != nil:
		*flag = true
	}
}

// list notes the names of fields in the argument of private or no-cache. It reports true if there
// are none: then the directive is about the whole answer.
func (r *Response) list(argument string, bare bool) (whole bool) {
	if bare || ascii.TrimOWS(argument) == "" {
		return true
	}
	r.Omitted = append(r.Omitted, argument)
	return false
}

// omits reports whether a field is in one of the lists of Omitted.
func (r *Response) omits(name string) bool {
	return slices.ContainsFunc(r.Omitted, func(list string) bool { return ascii.HasToken(list, name) })
}

// unix returns a date in Unix seconds; 0 if it is none. To a cache, the case of letters does not
// matter (RFC 9111 section 4.2).
func unix(value string) int64 {
	t, err := http1.ParseDate(value)
	if err != nil {
		if t, err = http1.ParseDate(usualCase(value)); err != nil {
			return 0
		}
	}
	return t.Unix()
}

// maxDate is how long a date is, at most.
const maxDate = len("Wednesday, 06-Nov-94 08:49:37 GMT")

// usualCase returns a date with the names of days, months and the zone in the usual case; "" for
// what is too long for one.
func usualCase(value string) string {
	if len(value) > maxDate {
		return ""
	}
	b := []byte(value)
	word := false // the letter is not the first of its word
	for i, c := range b {
		small := ascii.Lower(c)
		letter := small >= 'a' && small <= 'z'
		if b[i] = small; letter && !word {
			b[i] -= 'a' - 'A'
		}
		word = letter
	}
	if zone, ok := bytes.CutSuffix(b, []byte("Gmt")); ok {
		b = append(zone, "GMT"...)
	}
	return string(b)
}

// lately is the last Date that was read: in one second, many answers have the same.
var lately atomic.Pointer[dated]

type dated struct {
	text string
	unix int64
}

// unixDate is unix for a Date.
func unixDate(value string) int64 {
	if l := lately.Load(); l != nil && l.text == value {
		return l.unix
	}
	at := unix(value)
	if at != 0 {
		lately.Store(&dated{strings.Clone(value), at})
	}
	return at
}

// age reads an Age field (RFC 9111 section 5.1): of a list, the first member; what is no number is
// ignored.
func age(value string) (d time.Duration) {
	ascii.EachElement(value, func(first string) bool {
		d, _ = delta(first)
		return false
	})
	return d
}
