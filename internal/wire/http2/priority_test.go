package http2_test

import (
	"testing"

	"github.com/lwango/lwango/internal/wire/http2"
)

func TestPriority(t *testing.T) {
	for value, want := range map[string]uint8{
		"": 3, "u=0": 0, "u=7, i": 7, "i, u=1": 1, "i,u=2;x=y": 2, "u=8": 3, "u=-1": 3, "u=12": 3,
		"u=5.0": 3,
		"u":     3, "u=": 3, "xu=1": 3, "x=u=1": 3, `x="a,u=1"`: 3, `x="\",u=1", u=4`: 4, "u=1, u=6": 6,
		"U=1": 3, "u=1 ": 1,
		"\tu=5": 5, ",": 3, `"`: 3, `"\`: 3,
	} {
		if got, _ := http2.ParsePriority([]byte(value)); got != want {
			t.Errorf("%q: %d, want %d", value, got, want)
		}
	}
	for value, want := range map[string]bool{
		"": false, "u=1": false, "i": true, "u=1, i": true, "i,u=1": true, "i=?1": true, "i=?0": false,
		"i, i=?0":     false,
		"i=?0, i;x=1": true, "i=1": false, "xi": false, "ii": false, `x=",i"`: false, " i\t": true,
		"I": false,
	} {
		if _, got := http2.ParsePriority([]byte(value)); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}
