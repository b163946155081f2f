package http1_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/http1"
)

type ranges = []http1.Range

var rangeFields = []struct {
	s    string
	size int64
	want ranges
	err  error
}{
	{"bytes=0-4", 10, ranges{{0, 5}}, nil},
	{"bytes=2-", 10, ranges{{2, 8}}, nil},
	{"bytes=-3", 10, ranges{{7, 3}}, nil},
	{"bytes=-30", 10, ranges{{0, 10}}, nil},
	{"bytes=9-9", 10, ranges{{9, 1}}, nil},
	{"bytes=5-1000", 10, ranges{{5, 5}}, nil},
	{"bytes=0-0,-1", 10, ranges{{0, 1}, {9, 1}}, nil},
	{"bytes=5-6,0-1", 10, ranges{{5, 2}, {0, 2}}, nil}, // in the order asked for
	// RFC 9110 section 14.1: units are case-insensitive
	{"BYTES=0-4", 10, ranges{{0, 5}}, nil},
	{"bytes=, 0-1 ,\t, 3-4,", 10, ranges{{0, 2}, {3, 2}}, nil},
	{"bytes=0-1,20-30", 10, ranges{{0, 2}}, nil}, // the satisfiable ones only
	{"bytes=0-5,4-7", 10, ranges{{0, 6}, {4, 4}}, nil},
	// Numbers have no bound.
	{"bytes=0-99999999999999999999", 10, ranges{{0, 10}}, nil},
	{"bytes=-99999999999999999999", 10, ranges{{0, 10}}, nil},
	{"bytes=1-", math.MaxInt64, ranges{{1, math.MaxInt64 - 1}}, nil},

	{"bytes=10-", 10, nil, http1.ErrRangeUnsatisfiable},
	{"bytes=10-20,30-", 10, nil, http1.ErrRangeUnsatisfiable},
	{"bytes=-0", 10, nil, http1.ErrRangeUnsatisfiable},
	{"bytes=99999999999999999999-", 10, nil, http1.ErrRangeUnsatisfiable},
	{"bytes=99999999999999999999-", math.MaxInt64, nil, http1.ErrRangeUnsatisfiable},

	{"", 10, nil, http1.ErrRangeInvalid},
	{"bytes", 10, nil, http1.ErrRangeInvalid},
	{"bytes=", 10, nil, http1.ErrRangeInvalid},
	{"bytes= ,", 10, nil, http1.ErrRangeInvalid},
	{"bytes 0-4", 10, nil, http1.ErrRangeInvalid},
	{"bytes =0-4", 10, nil, http1.ErrRangeInvalid},
	{"lines=0-4", 10, nil, http1.ErrRangeInvalid},
	{"bytes=4-0", 10, nil, http1.ErrRangeInvalid},
	// section 14.1.1: invalid, before unsatisfiable
	{"bytes=20-15", 10, nil, http1.ErrRangeInvalid},
	{"bytes=-", 10, nil, http1.ErrRangeInvalid},
	{"bytes=5", 10, nil, http1.ErrRangeInvalid},
	{"bytes=a-b", 10, nil, http1.ErrRangeInvalid},
	{"bytes=0x1-2", 10, nil, http1.ErrRangeInvalid},
	{"bytes=+1-2", 10, nil, http1.ErrRangeInvalid},
	{"bytes=--2", 10, nil, http1.ErrRangeInvalid},
	{"bytes=1 - 2", 10, nil, http1.ErrRangeInvalid},
	{"bytes=1-2-3", 10, nil, http1.ErrRangeInvalid},
	{"bytes=0-1;3-4", 10, nil, http1.ErrRangeInvalid},
	{"bytes=0-1,x", 10, nil, http1.ErrRangeInvalid},
	// An empty representation.
	{"bytes=0-", 0, nil, http1.ErrRangeInvalid},
	{"bytes=-5", 0, nil, http1.ErrRangeInvalid},
	// Sets that only the broken and the hostile send (RFC 9110 section 14.2).
	{"bytes=0-,0-", 10, nil, http1.ErrRangeInvalid},
	{"bytes=0-,-9223372036854775807,0-", math.MaxInt64, nil, http1.ErrRangeInvalid},
	// the sum of the lengths is beyond int64
	{"bytes=0-,-1", math.MaxInt64, nil, http1.ErrRangeInvalid},
	{"bytes=0-2,1-3,2-4", 100, nil, http1.ErrRangeInvalid},
	{"bytes=8-8,7-7,6-6,5-5,4-4,3-3,2-2,1-1,0-0", 100, nil, http1.ErrRangeInvalid},
	{"bytes=0-0" + strings.Repeat(",5-", 64), 1000, nil, http1.ErrRangeInvalid},
	{"bytes=0-0" + strings.Repeat(",", 128), 1000, nil, http1.ErrRangeInvalid},
}

func TestParseRange(t *testing.T) {
	for _, tt := range rangeFields {
		got, err := http1.ParseRange(tt.s, tt.size)
		if !slices.Equal(got, tt.want) || err != tt.err {
			t.Errorf("%.100q of %d: got %v, %v, want %v, %v", tt.s, tt.size, got, err, tt.want, tt.err)
		}
	}
}

func TestAppendContentRange(t *testing.T) {
	for _, tt := range []struct {
		r    http1.Range
		want string
	}{
		{http1.Range{0, 500}, "bytes 0-499/1234"},
		{http1.Range{1233, 1}, "bytes 1233-1233/1234"},
		{http1.Range{}, "bytes */1234"},
	} {
		if got := string(http1.AppendContentRange(nil, tt.r, 1234)); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func FuzzRange(f *testing.F) {
	for _, tt := range rangeFields {
		f.Add(tt.s, tt.size)
	}
	f.Fuzz(func(t *testing.T, s string, size int64) {
		got, err := http1.ParseRange(s, size)
		if (err == nil) != (len(got) > 0) {
			t.Fatalf("%v with %v", got, err)
		}
		var total uint64
		for _, r := range got {
			if r.Start < 0 || r.Length < 1 || r.Start > size-r.Length {
				t.Fatalf("%v is outside of %d", r, size)
			}
			total += uint64(r.Length)
		}
		if total > uint64(max(size, 0)) {
			t.Fatalf("%v are more than the whole of %d", got, size)
		}
		// What was cut to size asks for the same when asked for again.
		if len(got) > 0 {
			again := "bytes="
			for _, r := range got {
				c := string(http1.AppendContentRange(nil, r, size))
				again += strings.TrimPrefix(c[:strings.IndexByte(c, '/')], "bytes ") + ","
			}
			if got2, err := http1.ParseRange(again, size); !slices.Equal(got, got2) || err != nil {
				t.Fatalf("%q is %v, %q is %v, %v", s, got, again, got2, err)
			}
		}
	})
}
