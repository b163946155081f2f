package http1

import (
	"errors"
	"time"
)

// DateLen is the length of what AppendDate appends.
const DateLen = len("Sun, 06 Nov 1994 08:49:37 GMT")

const (
	dayNames   = "SunMonTueWedThuFriSat"
	monthNames = "JanFebMarAprMayJunJulAugSepOctNovDec"
)

var longDays = [...]string{"Sunday, ", "Monday, ", "Tuesday, ", "Wednesday, ", "Thursday, ",
	"Friday, ", "Saturday, "}

// ErrDate is what ParseDate returns for anything that is no HTTP date.
var ErrDate = errors.New("http1: not an HTTP date")

// AppendDate appends t as an IMF-fixdate (RFC 9110 section 5.6.7), DateLen bytes, in GMT and cut to
// the second. The form has four digits for the year, so a time outside the years 0 to 9999, as a
// broken file system may give, is written as the nearest one inside.
func AppendDate(dst []byte, t time.Time) []byte {
	t = t.UTC()
	if y := t.Year(); y < 0 {
		t = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	} else if y > 9999 {
		t = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	wd, mo := 3*int(t.Weekday()), 3*(int(month)-1)
	dst = append(dst, dayNames[wd:wd+3]...)
	dst = append(dst, ',', ' ')
	dst = append(appendTwo(dst, day), ' ')
	dst = append(dst, monthNames[mo:mo+3]...)
	dst = append(dst, ' ')
	dst = append(appendTwo(appendTwo(dst, year/100), year%100), ' ')
	dst = append(appendTwo(dst, hour), ':')
	dst = append(appendTwo(dst, minute), ':')
	return append(appendTwo(dst, second), " GMT"...)
}

func appendTwo(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }

// ParseDate reads the three forms of RFC 9110 section 5.6.7, case-sensitive as it says: "Sun, 06
// Nov 1994 08:49:37 GMT", the obsolete "Sunday, 06-Nov-94 08:49:37 GMT" and asctime's "Sun Nov 6
// 08:49:37 1994". The result is in UTC. A wrong day of the week passes, since only the date counts;
// a day that the month does not have, and everything else, is ErrDate.
func ParseDate[T string | []byte](s T) (time.Time, error) { return parseDate(s, time.Now) }

// parseDate takes the clock for the sake of tests; only two-digit years need it.
func parseDate[T string | []byte](s T, now func() time.Time) (time.Time, error) {
	p := dateParser[T]{s: s, ok: true}
	var year, month, day int
	switch {
	case len(s) == DateLen && s[3] == ',':
		p.name(dayNames)
		p.literal(", ")
		day = p.number(2)
		p.literal(" ")
		month = p.name(monthNames) + 1
		p.literal(" ")
		year = p.number(4)
		p.literal(" ")
		p.clock()
		p.literal(" GMT")
	case len(s) == len("Sun Nov  6 08:49:37 1994") && s[3] == ' ':
		p.name(dayNames)
		p.literal(" ")
		month = p.name(monthNames) + 1
		p.literal(" ")
		if len(p.s) > 0 && p.s[0] == ' ' {
			p.literal(" ")
			day = p.number(1)
		} else {
			day = p.number(2)
		}
		p.literal(" ")
		p.clock()
		p.literal(" ")
		year = p.number(4)
	default:
		p.longDay()
		day = p.number(2)
		p.literal("-")
		month = p.name(monthNames) + 1
		p.literal("-")
		year = p.number(2)
		p.literal(" ")
		p.clock()
		p.literal(" GMT")
		if p.ok {
			year = century(year, now().UTC().Year())
		}
	}
	if !p.ok || len(p.s) > 0 {
		return time.Time{}, ErrDate
	}
	t := time.Date(year, time.Month(month), day, p.hour, p.minute, p.second, 0, time.UTC)
	// Second 60 is a leap second and rightly runs into the next minute; a day that runs into the
	// next month is an error.
	if day == 0 || time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Day() != day {
		return time.Time{}, ErrDate
	}
	return t, nil
}

// century completes a two-digit year to the one from 49 years ago to 50 years ahead: by RFC 9110
// section 5.6.7 a year that seems to be further ahead is in the past.
func century(yy, now int) int {
	year := now - now%100 + yy
	switch {
	case year > now+50:
		return year - 100
	case year < now-49:
		return year + 100
	}
	return year
}

// dateParser takes a date apart from the left. After the first part that does not fit, ok is false
// and the rest means nothing.
type dateParser[T string | []byte] struct {
	s                    T
	hour, minute, second int
	ok                   bool
}

func (p *dateParser[T]) literal(l string) {
	if len(p.s) < len(l) || string(p.s[:len(l)]) != l {
		p.ok = false
		return
	}
	p.s = p.s[len(l):]
}

// name reads one of names, which are three letters each.
func (p *dateParser[T]) name(names string) int {
	if len(p.s) >= 3 {
		for i := 0; i < len(names); i += 3 {
			if names[i:i+3] == string(p.s[:3]) {
				p.s = p.s[3:]
				return i / 3
			}
		}
	}
	p.ok = false
	return 0
}

func (p *dateParser[T]) longDay() {
	for _, d := range longDays {
		if len(p.s) >= len(d) && string(p.s[:len(d)]) == d {
			p.s = p.s[len(d):]
			return
		}
	}
	p.ok = false
}

func (p *dateParser[T]) number(digits int) (n int) {
	if len(p.s) < digits {
		p.ok = false
		return 0
	}
	for i := range digits {
		c := p.s[i]
		if c < '0' || c > '9' {
			p.ok = false
			return 0
		}
		n = n*10 + int(c-'0')
	}
	p.s = p.s[digits:]
	return n
}

func (p *dateParser[T]) clock() {
	p.hour = p.number(2)
	p.literal(":")
	p.minute = p.number(2)
	p.literal(":")
	p.second = p.number(2)
	p.ok = p.ok && p.hour < 24 && p.minute < 60 && p.second <= 60
}
