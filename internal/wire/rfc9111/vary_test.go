package rfc9111_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// TestVary is about the field (RFC 9110 section 12.5.5).
func TestVary(t *testing.T) {
	many := make([]string, rfc9111.MaxVaryNames+1)
	for i := range many {
		many[i] = "n" + string(rune('a'+i))
	}
	for _, tt := range []struct{ fields, want string }{
		{"", ""},
		{"Vary:", ""},
		{"Vary: Accept", "accept"},
		{"Vary: B, a ,,A, b", "a,b"},
		{"Vary: b\nVary: a", "a,b"},
		{"Vary: *", "*"},
		{"Vary: , *", "*"},
		{"Vary: *, *", "*"},
		{"Vary: a\nVary: *", "*"},
		{"Vary: *, a", "*"},
		{"Vary: a b", "*"}, // who knows what is meant
		{"Vary: " + strings.Join(many[1:], ","), strings.Join(many[1:], ",")},
		{"Vary: " + strings.Join(many, ","), "*"},
		{"Vary: " + strings.Repeat("a,", 10000), "a"},
	} {
		if got := response(200, tt.fields).Vary; string(got) != tt.want {
			t.Errorf("%.80q: %q, want %q", tt.fields, got, tt.want)
		}
	}
}

// TestVaryKey is about RFC 9111 section 4.1: which requests match.
func TestVaryKey(t *testing.T) {
	for _, tt := range []struct {
		vary, a, b string
		same       bool
	}{
		{"", "A: 1", "A: 2", true},
		{"a", "A: 1", "a: 1", true},
		{"a", "A: 1", "A: 2", false},
		{"a", "A: 1", "", false},
		{"a", "A:", "", false},
		{"a", "", "B: 1", true},
		{"a,b", "A: 1\nB: 2", "B: 2\nA: 1", true},
		{"a,b", "A: 1", "B: 1", false},
		{"a,b", "A: 1\nB: 2", "A: 1, 2", false},
		{"a", "A: 1, 2", "A: 1\nA: 2", true},
		{"a", "A: 1,2", "A:  1 ,\t2 , ", true},
		{"a", "A: 1,,2", "A: 1,2", true},
		{"a", "A: 1, 2", "A: 2, 1", false},
		{"a", "A: x", "A: X", false},
		{"a", "A: a b", "A: a  b", false},
		{"a", `A: "x, y"`, `A: "x,y"`, false},
		{"a", `A: "x\", y"`, `A: "x\",y"`, false},
		{"a", `A: "x" , y`, `A: "x",y`, true},
		{"a", "A: \"x ", "A: \"x", true}, // white space at the end is none of the value's
		{"accept-language", "Accept-Language: en, de", "Accept-Language: EN,De", true},
		{"accept-language", "Accept-Language: en, de", "Accept-Language: de, en", false},
		{"accept-language", "Accept-Language: en, de;q=0.5", "Accept-Language: en, de;q=0.6", false},
		{"accept-encoding", "Accept-Encoding: gzip, br", "Accept-Encoding: br\nAccept-Encoding: gzip",
			true},
		{"accept-encoding", "Accept-Encoding: gzip, br", "Accept-Encoding: gzip", false},
		{"accept", `Accept: a;p="x,y", b`, `Accept: a;p="x, b", y`, false},
		{"accept-encoding", "Accept-Encoding: c,b,a,dd,d", "Accept-Encoding: d,dd,a,b,c", true},
	} {
		a := rfc9111.Vary(tt.vary).AppendKey(nil, text(tt.a))
		b := rfc9111.Vary(tt.vary).AppendKey(nil, text(tt.b))
		if (string(a) == string(b)) != tt.same {
			t.Errorf("Vary %q: %q and %q: %q, %q", tt.vary, tt.a, tt.b, a, b)
		}
	}
}

// FuzzVaryKey shows that a key is the same for the same request, that it does not run over what was
// there, and that sorting loses nothing.
func FuzzVaryKey(f *testing.F) {
	f.Add("gzip, br;q=0.5, zstd", "a, \"b, c\"")
	f.Add(",,,", "\"\\")
	f.Add(strings.Repeat("x,", 40), " \t")
	f.Fuzz(func(t *testing.T, encoding, foo string) {
		if strings.ContainsAny(encoding+foo, "\x00\x01\x02\n") {
			return
		}
		fields := lines{"Accept-Encoding:" + encoding, "Foo:" + foo}
		v := rfc9111.Vary("accept-encoding,foo")
		key := string(v.AppendKey([]byte("before"), fields))
		if !strings.HasPrefix(key, "before\x02") || strings.Count(key, "\x00") != 2 {
			t.Errorf("%q, %q: %q", encoding, foo, key)
		}
		// The values in that form have that form.
		parts := strings.Split(strings.TrimPrefix(key, "before\x02"), "\x00")
		again := lines{"Accept-Encoding:" + parts[0], "Foo:" + strings.TrimPrefix(parts[1], "\x02")}
		if got := string(v.AppendKey([]byte("before"), again)); got != key {
			t.Errorf("%q, %q: %q, and then %q", encoding, foo, key, got)
		}
	})
}
