package wire_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/lwango/lwango/fastcgi/internal/wire"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/cgi"
)

// A plain reader of records, which shares nothing with the package.
type record struct {
	typ     byte
	id      uint16
	content string
}

func records(t testing.TB, b []byte) (list []record) {
	for len(b) > 0 {
		if len(b) < 8 || b[0] != 1 || b[7] != 0 {
			t.Fatalf("header %q", b[:min(8, len(b))])
		}
		n, pad := int(binary.BigEndian.Uint16(b[4:])), int(b[6])
		if n+pad > 65535 || len(b) < 8+n+pad {
			t.Fatalf("record of %d and %d with %d left", n, pad, len(b)-8)
		}
		list = append(list, record{b[1], binary.BigEndian.Uint16(b[2:]), string(b[8 : 8+n])})
		b = b[8+n+pad:]
	}
	return list
}

// pairsOf reads the pairs of one PARAMS record, which may not end within one.
func pairsOf(t testing.TB, s string) (list [][2]string) {
	length := func() int {
		if len(s) > 0 && s[0] < 128 {
			n := int(s[0])
			s = s[1:]
			return n
		}
		if len(s) < 4 {
			t.Fatal("PARAMS record ends within a length")
		}
		n := binary.BigEndian.Uint32([]byte(s))
		s = s[4:]
		return int(n & 0x7fffffff)
	}
	for len(s) > 0 {
		n, v := length(), length()
		if n+v > len(s) {
			t.Fatalf("a pair of %d and %d in a PARAMS record with %d left", n, v, len(s))
		}
		list = append(list, [2]string{s[:n], s[n : n+v]})
		s = s[n+v:]
	}
	return list
}

func build(t testing.TB, keep bool, pairs [][2]string) []byte {
	var h wire.Head
	h.Begin([]byte{}, keep)
	for _, p := range pairs {
		h.Add(p[0], p[1])
	}
	b := must.Get(h.Finish())(t)
	return b
}

func TestHeadBytes(t *testing.T) {
	const begin = "\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"
	const keep = "\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x01\x00\x00\x00\x00\x00"
	const end = "\x01\x04\x00\x01\x00\x00\x00\x00"
	for _, tt := range []struct {
		keep  bool
		pairs [][2]string
		want  string
	}{
		{false, nil, begin + end},
		{true, nil, keep + end},
		{false, [][2]string{{"a", "b"}, {"c", ""}},
			begin + "\x01\x04\x00\x01\x00\x07\x00\x00\x01\x01ab\x01\x00c" + end},
	} {
		if got := string(build(t, tt.keep, tt.pairs)); got != tt.want {
			t.Errorf("%v %q:\n got %q\nwant %q", tt.keep, tt.pairs, got, tt.want)
		}
	}
}

// Sizes around those where a length grows and where a record is full.
func TestHeadSplits(t *testing.T) {
	const full = 65535
	pair := func(encoded int) [2]string { // of that size on the wire
		return [2]string{"N", strings.Repeat("v", encoded-1-1-4)}
	}
	for _, tt := range []struct {
		sizes   []int
		records int
	}{
		{[]int{200}, 1},
		{[]int{full}, 1},
		{[]int{full - 200, 200}, 1},
		{[]int{full - 199, 200}, 2},
		{[]int{full, full, full}, 3},
		{[]int{40000, 40000, 20000, 40000}, 3},
		{[]int{200, full, 200}, 3},
	} {
		var pairs [][2]string
		for _, n := range tt.sizes {
			pairs = append(pairs, pair(n))
		}
		list := records(t, build(t, false, pairs))
		if len(list) != tt.records+2 || list[len(list)-1] != (record{4, 1, ""}) {
			t.Fatalf("%v: %d records", tt.sizes, len(list))
		}
		var got [][2]string
		for _, r := range list[1:] {
			got = append(got, pairsOf(t, r.content)...)
		}
		if fmt.Sprint(got) != fmt.Sprint(pairs) {
			t.Errorf("%v: other pairs came out", tt.sizes)
		}
	}
}

func TestHeadRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        error
	}{
		{"", "x", cgi.ErrPairName},
		{"a\x00b", "", cgi.ErrPairNUL},
		{"a", "b\x00", cgi.ErrPairNUL},
		{"a", strings.Repeat("v", 65535-5), cgi.ErrPairSize},
		{strings.Repeat("n", 70000), "", cgi.ErrPairSize},
		{"a", strings.Repeat("v", 200000), cgi.ErrPairSize},
	} {
		var h wire.Head
		h.Begin(nil, false)
		h.Add("first", "good")
		h.Add(tt.name, tt.value)
		h.Add("last", "good")
		h.Add("", "an error that comes later")
		if _, err := h.Finish(); err != tt.want {
			t.Errorf("%.10q, %.10q: %v, want %v", tt.name, tt.value, err, tt.want)
		}
		// The same value serves again.
		h.Begin(nil, false)
		if _, err := h.Finish(); err != nil {
			t.Error("after an error:", err)
		}
	}
}

// FuzzHead makes pairs of arbitrary bytes, and of a length that arbitrary bytes alone would hardly
// reach.
func FuzzHead(f *testing.F) {
	f.Add([]byte("REQUEST_METHOD\nGET\nQUERY_STRING\n\nHTTP_COOKIE\na"), uint16(0))
	f.Add([]byte("a\nb\nc\nd"), uint16(65530))
	f.Add([]byte("a\nb\nc\nd"), uint16(33000))
	f.Add([]byte("\nvalue"), uint16(1))
	f.Add([]byte("a\n\x00"), uint16(1))
	f.Fuzz(func(t *testing.T, raw []byte, stretch uint16) {
		parts := strings.Split(string(raw), "\n")
		var pairs [][2]string
		var want error
		var h wire.Head
		h.Begin(nil, true)
		for i := 0; i+1 < len(parts); i += 2 {
			name, value := parts[i], parts[i+1]
			if value != "" {
				value += strings.Repeat(value[:1], int(stretch))
			}
			h.Add(name, value)
			pairs = append(pairs, [2]string{name, value})
			size := 2 + len(name) + len(value)
			if len(name) > 127 {
				size += 3
			}
			if len(value) > 127 {
				size += 3
			}
			switch {
			case want != nil:
			case strings.Contains(name+value, "\x00"):
				want = cgi.ErrPairNUL
			case name == "":
				want = cgi.ErrPairName
			case size > 65535:
				want = cgi.ErrPairSize
			}
		}
		b, err := h.Finish()
		if err != want {
			t.Fatalf("%v, want %v", err, want)
		}
		if err != nil {
			return
		}
		list := records(t, b)
		if list[0] != (record{1, 1, "\x00\x01\x01\x00\x00\x00\x00\x00"}) ||
			list[len(list)-1] != (record{4, 1, ""}) {
			t.Fatalf("begins with %v, ends with %v", list[0], list[len(list)-1])
		}
		var got [][2]string
		for i, r := range list[1:] {
			if r.typ != 4 || r.id != 1 || r.content == "" && i != len(list)-2 {
				t.Fatalf("record %d is of type %d with %d bytes", i+1, r.typ, len(r.content))
			}
			got = append(got, pairsOf(t, r.content)...)
		}
		if fmt.Sprint(got) != fmt.Sprint(pairs) {
			t.Fatal("other pairs came out")
		}
	})
}
