package http1

import (
	"net/http"
	"testing"
	"time"
)

// Inside the package for the clock that two-digit years hang on.

func at(year int) func() time.Time {
	return func() time.Time { return time.Date(year, 7, 1, 0, 0, 0, 0, time.UTC) }
}

func TestAppendDate(t *testing.T) {
	for _, tt := range []struct {
		t    time.Time
		want string
	}{
		{time.Date(1994, 11, 6, 8, 49, 37, 999999999, time.UTC), "Sun, 06 Nov 1994 08:49:37 GMT"},
		{time.Date(2024, 2, 29, 23, 59, 59, 0, time.FixedZone("", 3600)),
			"Thu, 29 Feb 2024 22:59:59 GMT"},
		{time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("", -1800)), "Thu, 01 Jan 2026 00:30:00 GMT"},
		{time.Unix(0, 0), "Thu, 01 Jan 1970 00:00:00 GMT"},
		{time.Time{}, "Mon, 01 Jan 0001 00:00:00 GMT"},
		{time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), "Sat, 01 Jan 0000 00:00:00 GMT"},
		{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "Fri, 31 Dec 9999 23:59:59 GMT"},
	} {
		if got := string(AppendDate([]byte("x"), tt.t)); got != "x"+tt.want || len(tt.want) != DateLen {
			t.Errorf("%v: got %q, want %q", tt.t, got, tt.want)
		}
	}
	start := time.Date(1999, 1, 1, 0, 0, 1, 0, time.UTC)
	for i := range 4000 { // every day of eleven years, as net/http writes it
		d := start.Add(time.Duration(i) * (24*time.Hour + 61*time.Second))
		if got, want := string(AppendDate(nil, d)), d.Format(http.TimeFormat); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

var dates = []struct {
	s    string
	want time.Time // zero: refused
}{
	{"Sun, 06 Nov 1994 08:49:37 GMT", time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)},
	{"Sunday, 06-Nov-94 08:49:37 GMT", time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)},
	{"Sun Nov  6 08:49:37 1994", time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)},
	{"Wed Nov 16 08:49:37 1994", time.Date(1994, 11, 16, 8, 49, 37, 0, time.UTC)},
	{"Thu, 29 Feb 2024 00:00:00 GMT", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
	// it was a Sunday
	{"Mon, 06 Nov 1994 08:49:37 GMT", time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)},
	// leap second
	{"Sat, 31 Dec 2016 23:59:60 GMT", time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC)},
	// Two digits, in the year 2026 (RFC 9110 section 5.6.7).
	{"Friday, 01-Jan-26 00:00:00 GMT", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
	{"Friday, 01-Jan-76 00:00:00 GMT", time.Date(2076, 1, 1, 0, 0, 0, 0, time.UTC)},
	{"Friday, 01-Jan-77 00:00:00 GMT", time.Date(1977, 1, 1, 0, 0, 0, 0, time.UTC)},
	{"Wednesday, 01-Jan-00 00:00:00 GMT", time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)},

	{"", time.Time{}},
	{"0", time.Time{}},
	{"Sun, 06 Nov 1994 08:49:37", time.Time{}},
	{"Sun, 06 Nov 1994 08:49:37 UTC", time.Time{}},
	{"Sun, 06 Nov 1994 08:49:37 gmt", time.Time{}},
	{"sun, 06 Nov 1994 08:49:37 GMT", time.Time{}},
	{"Sun, 06 NOV 1994 08:49:37 GMT", time.Time{}},
	{"Sun, 06 Nov 1994 08:49:37 GMT ", time.Time{}},
	{" Sun, 06 Nov 1994 08:49:37 GMT", time.Time{}},
	{"Sun, 6 Nov 1994 08:49:37 GMT", time.Time{}},
	{"Sun,  6 Nov 1994 08:49:37 GMT", time.Time{}},
	{"Sun, 00 Nov 1994 08:49:37 GMT", time.Time{}},
	{"Sun, 31 Nov 1994 08:49:37 GMT", time.Time{}},
	{"Sun, 29 Feb 2023 08:49:37 GMT", time.Time{}},
	{"Sun, 06 Nov 1994 24:00:00 GMT", time.Time{}},
	{"Sun, 06 Nov 1994 08:60:37 GMT", time.Time{}},
	{"Sun, 06 Nov 1994 08:49:61 GMT", time.Time{}},
	{"Sun, 06 Nov 1994 +8:49:37 GMT", time.Time{}},
	{"Sun, 06 Nov 94 08:49:37 GMT", time.Time{}},
	{"Sun, 06-Nov-94 08:49:37 GMT", time.Time{}},
	{"Sunday, 06-Nov-1994 08:49:37 GMT", time.Time{}},
	{"Sunday, 06 Nov 94 08:49:37 GMT", time.Time{}},
	{"Noday, 06-Nov-94 08:49:37 GMT", time.Time{}},
	{"Sun Nov  6 08:49:37 94", time.Time{}},
	{"Sun Nov 06  8:49:37 1994", time.Time{}},
	{"Sun Nov   08:49:37 199412", time.Time{}},
	{"1994-11-06T08:49:37Z", time.Time{}},
}

func TestParseDate(t *testing.T) {
	for _, tt := range dates {
		got, err := parseDate(tt.s, at(2026))
		if !got.Equal(tt.want) || (err == nil) == tt.want.IsZero() || err != nil && err != ErrDate {
			t.Errorf("%q: got %v, %v, want %v", tt.s, got, err, tt.want)
		}
	}
	for _, tt := range []struct{ now, yy, want int }{
		{1999, 49, 2049}, {1999, 50, 1950}, {1999, 0, 2000}, {2050, 99, 2099}, {2050, 0, 2100},
		{2050, 1, 2001}, {2001, 99, 1999},
	} {
		if got := century(tt.yy, tt.now); got != tt.want {
			t.Errorf("%02d in %d: got %d, want %d", tt.yy, tt.now, got, tt.want)
		}
	}
	if d, err := ParseDate("Sun, 06 Nov 1994 08:49:37 GMT"); err != nil || d.Unix() != 784111777 {
		t.Error(d, err)
	}
}

func TestDateAllocations(t *testing.T) {
	now, dst := time.Now(), make([]byte, 0, DateLen)
	if n := testing.AllocsPerRun(100, func() {
		AppendDate(dst, now)
		ParseDate("Sun, 06 Nov 1994 08:49:37 GMT")
		ParseDate("Sunday, 06-Nov-94 08:49:37 GMT")
		ParseDate("no date")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParseDate(f *testing.F) {
	for _, tt := range dates {
		f.Add(tt.s)
	}
	f.Add("Fri, 31 Dec 9999 23:59:60 GMT")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseDate(s, at(2026))
		if err != nil || got.Year() > 9999 { // by a leap second; AppendDate ends there
			return
		}
		again, err := ParseDate(string(AppendDate(nil, got)))
		if err != nil || !again.Equal(got) {
			t.Fatalf("%q is %v, and written again %v, %v", s, got, again, err)
		}
		// net/http takes all we take, a leap second aside, and means the same but for its other
		// pivot of two-digit years.
		if want, err := http.ParseTime(s); err == nil && !want.Equal(got) &&
			want.Year()-got.Year() != 100 && got.Year()-want.Year() != 100 {
			t.Fatalf("%q is %v, for net/http %v", s, got, want)
		}
	})
}

func BenchmarkAppendDate(b *testing.B) {
	now, dst := time.Now(), make([]byte, 0, DateLen)
	for b.Loop() {
		AppendDate(dst, now)
	}
}

func BenchmarkParseDate(b *testing.B) {
	for b.Loop() {
		ParseDate("Sun, 06 Nov 1994 08:49:37 GMT")
	}
}
