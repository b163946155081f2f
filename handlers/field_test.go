package handlers_test

import (
	"testing"

	"github.com/lwango/lwango/handlers"
)

func TestCheckField(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []string
		want   string
	}{
		{"X-A", []string{"a", "", "b\tc", "\u00e4"}, ""},
		{"X-A", nil, ""},
		{"", nil, "not a valid name of a header field"},
		{"a b", []string{"x"}, "not a valid name of a header field"},
		{"Connection", []string{"x"}, "is set by the server itself"},
		{"content-LENGTH", []string{"3"}, "is set by the server itself"},
		{"date", nil, "is set by the server itself"},
		{"Keep-Alive", nil, "is set by the server itself"},
		{"trailer", nil, "is set by the server itself"},
		{"Transfer-Encoding", nil, "is set by the server itself"},
		{"upgrade", nil, "is set by the server itself"},
		{"x", []string{"a", "b\r\nc: d"}, "control characters cannot be part of a header field"},
		{"x", []string{"\x00"}, "control characters cannot be part of a header field"},
	} {
		got := ""
		if err := handlers.CheckField(test.name, test.values...); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("CheckField(%q, %q): %s\nwant %s", test.name, test.values, got, test.want)
		}
	}
}
