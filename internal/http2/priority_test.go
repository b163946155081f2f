package http2_test

import (
	"testing"

	"github.com/lwango/lwango/internal/http2"
)

func TestUrgency(t *testing.T) {
	for value, want := range map[string]uint8{
		"": 3, "u=0": 0, "u=7, i": 7, "i, u=1": 1, "i,u=2;x=y": 2, "u=8": 3, "u=-1": 3, "u=12": 3, "u=5.0": 3,
		"u": 3, "u=": 3, "xu=1": 3, "x=u=1": 3, `x="a,u=1"`: 3, `x="\",u=1", u=4`: 4, "u=1, u=6": 6, "U=1": 3, "u=1 ": 1,
		"\tu=5": 5, ",": 3, `"`: 3, `"\`: 3,
	} {
		if got := http2.Urgency([]byte(value)); got != want {
			t.Errorf("%q: %d, want %d", value, got, want)
		}
	}
}
