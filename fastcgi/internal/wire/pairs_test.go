package wire_test

import (
	"strings"
	"testing"
)

func TestPairs(t *testing.T) {
	for _, tt := range []struct {
		name, value, lengths string
	}{
		{"a", "", "\x01\x00"},
		{"a", "bc", "\x01\x02"},
		{"n", strings.Repeat("v", 127), "\x01\x7f"},
		// the top bit of the first byte on the wire
		{"n", strings.Repeat("v", 128), "\x01\x80\x00\x00\x80"},
		{strings.Repeat("n", 128), "v", "\x80\x00\x00\x80\x01"},
		{strings.Repeat("n", 300), strings.Repeat("v", 300), "\x80\x00\x01\x2c\x80\x00\x01\x2c"},
		{"n", strings.Repeat("v", 65000), "\x01\x80\x00\xfd\xe8"},
	} {
		want := tt.lengths + tt.name + tt.value
		head := build(t, false, [][2]string{{tt.name, tt.value}})
		if got := records(t, head)[1].content; got != want {
			t.Errorf("%d and %d bytes: %.20q", len(tt.name), len(tt.value), got)
		}
	}
}
