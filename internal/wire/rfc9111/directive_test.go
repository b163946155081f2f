package rfc9111_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// TestDirectives is about RFC 9111 section 5.2: what is a directive, and what becomes of the rest.
func TestDirectives(t *testing.T) {
	for _, tt := range []struct {
		value, want string
		ok          bool
	}{
		{"", "", true},
		{" , ,\t", "", true}, // RFC 9110 section 5.6.1.2
		{"no-store", "no-store", true},
		{" no-store , max-age=5 ", "no-store|max-age=5", true},
		{`max-age="5"`, "max-age=5", true},
		{`private="a, b", public`, "private=a, b|public", true},
		{`x="\"", no-store`, `x=\"|no-store`, true},
		{`x="no-store"`, "x=no-store", true},
		{`x=""`, "x=", true},
		{"max-age =5, public", "public", false}, // no white space around "="
		{"max-age= 5, public", "public", false},
		{"max-age=5 6, public", "public", false},
		{`max-age="5"6, public`, "public", false},
		{"max-age=, public", "public", false},
		{"=5, public", "public", false},
		{"a b, public", "public", false},
		{`x="open, no-store`, "no-store", false}, // nothing is hidden by a quote without its end
		{`x="open\`, "", false},
		{"max-age=5\"", "", false},
	} {
		var got []string
		ok := rfc9111.EachDirective(tt.value, func(name, argument string, bare bool) {
			if !bare {
				name += "=" + argument
			}
			got = append(got, name)
		})
		if s := strings.Join(got, "|"); s != tt.want || ok != tt.ok {
			t.Errorf("%q: %q, %v; want %q, %v", tt.value, s, ok, tt.want, tt.ok)
		}
	}
}

// FuzzDirectives holds the parser to its word: names are tokens, and nothing is made up.
func FuzzDirectives(f *testing.F) {
	for _, s := range []string{"", "no-store", `private="a, b", max-age="5"`, `x="\"`, "a=b c, d",
		",,=,\"", "s-maxage=99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		rfc9111.EachDirective(value, func(name, argument string, bare bool) {
			if name == "" || strings.ContainsAny(name, " \t,=\"") || bare && argument != "" {
				t.Errorf("%q: name %q, argument %q, bare %v", value, name, argument, bare)
			}
			if !strings.Contains(value, name) || !strings.Contains(value, argument) {
				t.Errorf("%q: made up: %q, %q", value, name, argument)
			}
		})
		rfc9111.ReadRequest("GET", lines{"Cache-Control:" + value})
		r := rfc9111.ReadResponse(200, lines{"Cache-Control:" + value}.all())
		if r.MaxAge < -1 || r.SMaxAge < -1 || r.StaleIfError < -1 || r.StaleWhileRevalidate < -1 {
			t.Errorf("%q: negative: %+v", value, r)
		}
	})
}
