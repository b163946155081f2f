package http1_test

import (
	"net/url"
	"testing"

	"github.com/lwango/lwango/internal/wire/http1"
)

func TestEscapeQuery(t *testing.T) {
	for query, want := range map[string]string{
		"":                       "",
		"a=1&b=x/y?z:@;,!$'()*+": "a=1&b=x/y?z:@;,!$'()*+",
		"a=%20%C3%A4%c3":         "a=%20%C3%A4%c3",
		"a=\u00e4":               "a=%C3%A4",
		"a=\xff\x80":             "a=%FF%80",
		"a[]=\"<>\\^`{|}":        "a%5B%5D=%22%3C%3E%5C%5E%60%7B%7C%7D",
		"100%":                   "100%25",
		"%z1%1":                  "%25z1%251",
		" \r\n\x00\x7f#":         "%20%0D%0A%00%7F%23",
	} {
		if got := http1.EscapeQuery(query); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
}

// FuzzEscapeQuery: a query that is allowed comes out, with the meaning of the one that went in.
func FuzzEscapeQuery(f *testing.F) {
	f.Add("a=\xff&b[]=%zz")
	f.Fuzz(func(t *testing.T, query string) {
		got := http1.EscapeQuery(query)
		if again := http1.EscapeQuery(got); again != got {
			t.Errorf("%q, and again %q", got, again)
		}
		for i := range len(got) {
			if c := got[i]; c <= ' ' || c >= 0x7f {
				t.Errorf("%q: raw %q", got, c)
			}
		}
		if want, err := url.QueryUnescape(query); err == nil {
			if has, err := url.QueryUnescape(got); err != nil || has != want {
				t.Errorf("%q means %q, and was %q", got, has, want)
			}
		}
	})
}

// FuzzEscapeValue: whatever the value, it comes back as the only one, and readable text stays so.
func FuzzEscapeValue(f *testing.F) {
	f.Add("a b&c=d;e+f#%41?/:@,-._~\xff")
	f.Fuzz(func(t *testing.T, value string) {
		got := http1.EscapeValue(value)
		values, err := url.ParseQuery("q=" + got)
		if err != nil || len(values) != 1 || len(values["q"]) != 1 || values.Get("q") != value {
			t.Errorf("%q became %q: %v, %v", value, got, values, err)
		}
		if again := http1.EscapeQuery(got); again != got {
			t.Errorf("%q is no query: %q", got, again)
		}
	})
}
