package http1

import (
	"errors"
	"strconv"
	"strings"

	"github.com/lwango/lwango/internal/base/ascii"
)

// A Range is a part of a representation, in bytes: Length >= 1 of them from Start on, all inside
// it.
type Range struct{ Start, Length int64 }

// What ParseRange may find wrong.
var (
	// ErrRangeInvalid: the field is to be ignored, the answer is the whole representation (RFC 9110
	// section 14.2).
	ErrRangeInvalid = errors.New("http1: Range field to be ignored")
	// ErrRangeUnsatisfiable: the answer is 416 with "Content-Range: bytes */size" (RFC 9110 section
	// 15.5.17).
	ErrRangeUnsatisfiable = errors.New("http1: no range overlaps the representation")
)

const (
	maxRanges      = 64 // parts in one answer
	maxUnordered   = 8  // parts in one answer if they are not in ascending order
	maxOverlapping = 2  // ranges that share bytes with another one
)

// ParseRange reads a Range field for a representation of size bytes and returns the satisfiable
// ranges, one or more, in the order asked for and cut to size. Other units than bytes (named in any
// case of letters, RFC 9110 section 14.1) and malformed fields are ErrRangeInvalid.
//
// RFC 9110 section 14.2 lets a server ignore sets of ranges that only a broken or hostile client
// sends: here those with more than two overlapping ranges, with many parts, and with parts that
// together are more than the whole. It also lets a server ignore the field at will, as ParseRange
// does when size is 0: no Content-Range could name the last 5 bytes of nothing, and clients that
// put "bytes=0-" into every request would get 416 for a file that is only empty.
func ParseRange(s string, size int64) ([]Range, error) {
	const unit = "bytes="
	if len(s) <= len(unit) || !ascii.HasPrefixFold(s, unit) || size <= 0 {
		return nil, ErrRangeInvalid
	}
	set := s[len(unit):]
	// some empty elements have to be put up with: RFC 9110 section 5.6.1.2
	if strings.Count(set, ",") >= 2*maxRanges {
		return nil, ErrRangeInvalid
	}
	var ranges []Range
	specs, bad := 0, false
	ascii.EachElement(set, func(spec string) bool {
		specs++
		r, ok, satisfiable := parseRangeSpec(spec, size)
		if bad = !ok; bad {
			return false
		}
		if satisfiable {
			if ranges == nil {
				ranges = make([]Range, 0, 1+strings.Count(set, ","))
			}
			ranges = append(ranges, r)
		}
		return true
	})
	switch {
	case bad || specs == 0:
		return nil, ErrRangeInvalid
	case len(ranges) == 0:
		return nil, ErrRangeUnsatisfiable
	case len(ranges) > 1 && abusive(ranges, size):
		return nil, ErrRangeInvalid
	}
	return ranges, nil
}

// parseRangeSpec reads "first-", "first-last" or "-suffix" (RFC 9110 section 14.1.2). ok is false
// if it is none of these.
func parseRangeSpec(s string, size int64) (r Range, ok, satisfiable bool) {
	a, b, found := strings.Cut(s, "-")
	first, okFirst := parsePosition(a)
	last, okLast := parsePosition(b)
	switch {
	case !found || !okFirst && a != "" || !okLast && b != "" || a == "" && b == "":
		return Range{}, false, false
	case a == "":
		n := min(last, size)
		return Range{size - n, n}, true, n > 0
	case b == "":
		last = size - 1
	case last < first:
		return Range{}, false, false
	}
	if first >= size {
		return Range{}, true, false
	}
	return Range{first, min(last, size-1) - first + 1}, true, true
}

// parsePosition reads 1*DIGIT. The grammar sets no bound, so a number too large is valid and stands
// for the largest one.
func parsePosition(s string) (n int64, ok bool) {
	for i := range len(s) {
		d := int64(s[i] - '0')
		if d > 9 {
			return 0, false
		}
		if n > (1<<63-1-d)/10 {
			n = 1<<63 - 1
			continue
		}
		n = n*10 + d
	}
	return n, len(s) > 0
}

// abusive reports whether the ranges are of the kind RFC 9110 section 14.2 lets a server ignore.
func abusive(ranges []Range, size int64) bool {
	if len(ranges) > maxRanges {
		return true
	}
	total, ascending, overlapping := int64(0), true, 0
	for i, r := range ranges {
		if r.Length > size-total { // the sum itself could overflow
			return true
		}
		total += r.Length
		ascending = ascending && (i == 0 || r.Start >= ranges[i-1].Start)
		for j, q := range ranges {
			if i != j && r.Start < q.Start+q.Length && q.Start < r.Start+r.Length {
				overlapping++
				break
			}
		}
	}
	return overlapping > maxOverlapping || !ascending && len(ranges) > maxUnordered
}

// AppendContentRange appends the value of a Content-Range field (RFC 9110 section 14.4), such as
// "bytes 0-499/1234". With the zero Range it is that of a 416: "bytes */1234".
func AppendContentRange(dst []byte, r Range, size int64) []byte {
	dst = append(dst, "bytes "...)
	if r.Length == 0 {
		dst = append(dst, '*')
	} else {
		dst = strconv.AppendInt(dst, r.Start, 10)
		dst = append(dst, '-')
		dst = strconv.AppendInt(dst, r.Start+r.Length-1, 10)
	}
	return strconv.AppendInt(append(dst, '/'), size, 10)
}
