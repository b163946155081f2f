package wire_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/fastcgi/internal/wire"
)

func TestPairs(t *testing.T) {
	for _, tt := range []struct {
		name, value, lengths string
	}{
		{"", "", "\x00\x00"},
		{"a", "", "\x01\x00"},
		{"a", "bc", "\x01\x02"},
		{"n", strings.Repeat("v", 127), "\x01\x7f"},
		{"n", strings.Repeat("v", 128), "\x01\x80\x00\x00\x80"}, // the top bit of the first byte on the wire
		{strings.Repeat("n", 128), "v", "\x80\x00\x00\x80\x01"},
		{strings.Repeat("n", 300), strings.Repeat("v", 300), "\x80\x00\x01\x2c\x80\x00\x01\x2c"},
		{"n", strings.Repeat("v", 70000), "\x01\x80\x01\x11\x70"},
	} {
		want := tt.lengths + tt.name + tt.value
		got := string(wire.AppendPair([]byte("before"), tt.name, []byte(tt.value)))
		if got != "before"+want {
			t.Fatalf("%d and %d bytes: %.20q", len(tt.name), len(tt.value), got)
		}
		if n := wire.PairLen(len(tt.name), len(tt.value)); n != len(want) {
			t.Errorf("PairLen(%d, %d) = %d, want %d", len(tt.name), len(tt.value), n, len(want))
		}
		name, value, n, err := wire.ParsePair([]byte(want+"more"), len(want))
		if string(name) != tt.name || string(value) != tt.value || n != len(want) || err != nil {
			t.Errorf("%.20q: %.20q, %.20q, %d, %v", want, name, value, n, err)
		}
		for _, i := range []int{0, 1, 2, 4, 5, len(want) / 2, len(want) - 1} {
			if i >= len(want) {
				continue
			}
			name, value, n, err := wire.ParsePair([]byte(want[:i]), len(want))
			if n != 0 || err != nil || name != nil || value != nil {
				t.Errorf("%.20q cut at %d: %d, %v", want, i, n, err)
			}
		}
		if len(tt.name)+len(tt.value) == 0 {
			continue
		}
		if _, _, n, err := wire.ParsePair([]byte(want), len(want)-1); n != 0 || err != wire.ErrPairLength {
			t.Errorf("%.20q beyond the limit: %d, %v", want, n, err)
		}
	}
}

// What is announced beyond the limit is refused before it has come.
func TestPairLimit(t *testing.T) {
	for _, raw := range []string{
		"\xff\xff\xff\xff", // the name alone is too long
		"\xff\xff\xff\xff\xff\xff\xff\xff",
		"\x80\x00\x04\x00\x80\x00\x04\x00", // 1024 each
		"\x01\x80\x00\x04\x00",
	} {
		if _, _, n, err := wire.ParsePair([]byte(raw), 1024); n != 0 || err != wire.ErrPairLength {
			t.Errorf("%q: %d, %v", raw, n, err)
		}
	}
	// A length that takes four bytes without need is one all the same.
	if name, value, n, err := wire.ParsePair([]byte("\x80\x00\x00\x01\x80\x00\x00\x01ab"), 10); string(name) != "a" ||
		string(value) != "b" || n != 10 || err != nil {
		t.Errorf("long form of short lengths: %q, %q, %d, %v", name, value, n, err)
	}
}

func FuzzPair(f *testing.F) {
	f.Add([]byte("\x01\x02abb\x00\x00"), 100)
	f.Add([]byte("\x80\x00\x00\x80\x01"+strings.Repeat("n", 128)+"v"), 1000)
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"), 1<<40)
	f.Fuzz(func(t *testing.T, raw []byte, limit int) {
		name, value, n, err := wire.ParsePair(raw, limit)
		if err != nil || n == 0 {
			if name != nil || value != nil || n != 0 {
				t.Fatalf("%q, %q, %d with %v", name, value, n, err)
			}
			return
		}
		if n > len(raw) || n > limit || len(name)+len(value) > n-2 || n > len(name)+len(value)+8 {
			t.Fatalf("n = %d of %d, limit %d, for %d and %d bytes", n, len(raw), limit, len(name), len(value))
		}
		again := wire.AppendPair(nil, name, value)
		name2, value2, n2, err := wire.ParsePair(again, len(again))
		if string(name2) != string(name) || string(value2) != string(value) || err != nil {
			t.Fatalf("%q, %q written is %q", name, value, again)
		}
		if n2 != len(again) || n2 > n {
			t.Fatalf("%d bytes became %d, of which %d were read", n, len(again), n2)
		}
		if n2 == n && string(again) != string(raw[:n]) {
			t.Fatalf("%q became %q", raw[:n], again)
		}
	})
}
