package http1_test

import (
	"bytes"
	"net/url"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/http1"
)

// sentPaths are raw paths, and what goes on of them.
var sentPaths = []struct{ raw, want string }{
	{"", "/"}, {"/", "/"}, {"/a/b.c/..d/e..", "/a/b.c/..d/e.."}, {"/a;b=c:d@e", "/a;b=c:d@e"},
	// As it was sent.
	{"/api/v1/repositories/https%3A%2F%2Fgithub.com%2Forg%2Frepo.git/apps",
		"/api/v1/repositories/https%3A%2F%2Fgithub.com%2Forg%2Frepo.git/apps"},
	{"/a%2fb%3B%26%2B%40", "/a%2fb%3B%26%2B%40"}, {"/%61", "/%61"}, {"/a%25", "/a%25"},
	{"/%252e%252e/", "/%252e%252e/"},
	{"/a//b///", "/a//b///"}, {"/a%2F/b", "/a%2F/b"}, {"/%2Fa", "/%2Fa"}, {"/a/...", "/a/..."},
	{"/fetch/https://example.org/", "/fetch/https://example.org/"},
	// What may not stand there, and nothing else.
	{"/a%2Fb/[slug]", "/a%2Fb/%5Bslug%5D"}, {"/%3B|^{", "/%3B%7C%5E%7B"},
	{"/%3b\xc3\xbc/%2F", "/%3b%C3%BC/%2F"}, {"/a\\b", "/a%5Cb"},
	{"/a b", "/a%20b"}, {"/\"<>`}", "/%22%3C%3E%60%7D"},
	// Slashes in front.
	{"//a", "/a"}, {"///a//b", "/a//b"}, {"//", "/"}, {"//%2Fa", "/%2Fa"}, {"/.//a", "/a"},
	// Dot segments.
	{"/.", "/"}, {"/a/.", "/a/"}, {"/a/..", "/"}, {"/a/./b", "/a/b"}, {"/a/b/../c", "/a/c"},
	{"/a/b/../../c", "/c"},
	{"/a%2Fx/./c%3B", "/a%2Fx/c%3B"}, {"/a/%2e/%3B", "/a/%3B"}, {"/a/.%2E/b", "/b"},
	{"/a/%2e%2e", "/"},
	{"/a%2F..%2Fb", "/b"}, {"/x/a%2F..%2Fb%2Fc", "/x/b%2Fc"}, {"/a%2F.", "/a%2F"},
	{"/a%2F.%2Fb", "/a%2Fb"},
	{"/a%2Fb/../c", "/a%2Fc"}, {"/a//../b", "/b"}, {"/a//b/..//c", "/a///c"},
	{"/a/x%2F%2F..%2Fb", "/a/b"}, {"/%2Fa/..", "/%2F"},
	{"/a/.//b", "/a//b"}, {"/a|/../%3B", "/%3B"},
}

func TestSent(t *testing.T) {
	for _, c := range sentPaths {
		if got := http1.AppendSent([]byte("at "), []byte(c.raw)); string(got) != "at "+c.want {
			t.Errorf("%s: got %s, want %s", c.raw, got, c.want)
		}
		raw := []byte(c.raw)
		if got := http1.Sent(raw); string(got) != c.want || string(raw) != c.raw ||
			c.raw == c.want && &got[0] != &raw[0] {
			t.Errorf("%s: got %s, want %s", c.raw, got, c.want)
		}
	}
}

// allReadings are all ways to read a path that there are.
var allReadings = []http1.Reading{http1.Merged, http1.EncodedKept, http1.Decoded, http1.AllKept,
	http1.MergedFirst}

// oracle reads a path by the standard library.
func oracle(how http1.Reading, sent string) string {
	merge := func(s string) string {
		for strings.Contains(s, "//") {
			s = strings.ReplaceAll(s, "//", "/")
		}
		return s
	}
	unescape := func(s string) string {
		s, err := url.PathUnescape(s)
		if err != nil {
			panic(err)
		}
		return s
	}
	apart := strings.NewReplacer("%2F", "\x00", "%2f", "\x00")
	switch how {
	case http1.Merged:
		return merge(unescape(sent))
	case http1.EncodedKept:
		return unescape(apart.Replace(merge(sent)))
	case http1.Decoded:
		return unescape(sent)
	case http1.AllKept:
		return unescape(apart.Replace(sent))
	}
	return unescape(merge(sent))
}

// FuzzSent: what goes on means what the clean path says, is as it was sent but for what it says in
// its comment, and has no dot segment however it is read; and all readings that there are get
// judged.
func FuzzSent(f *testing.F) {
	for _, c := range sentPaths {
		f.Add([]byte(c.raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		path, err := http1.CleanPath(nil, raw)
		if err != nil {
			return
		}
		sent := http1.Sent(raw)
		if again, err := http1.CleanPath(nil, sent); err != nil || !bytes.Equal(again, path) {
			t.Fatalf("%q: %q goes on, which is %q, %v, and not %q", raw, sent, again, err, path)
		}
		if again := http1.Sent(sent); !bytes.Equal(again, sent) {
			t.Errorf("%q: %q, and then %q", raw, sent, again)
		}
		decoded, _ := url.PathUnescape(string(raw))
		if !strings.Contains("/"+decoded+"/", "/./") && !strings.Contains(decoded+"/", "/../") &&
			!bytes.HasPrefix(raw, []byte("//")) {
			want := ""
			for _, c := range raw {
				if strings.IndexByte(
					"!$%&'()*+,-./0123456789:;=@ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~", c) >= 0 {
					want += string(rune(c))
				} else {
					want += string(http1.AppendPercent(nil, c))
				}
			}
			if want == "" {
				want = "/"
			}
			if string(sent) != want {
				t.Errorf("%q: %q goes on, want %q", raw, sent, want)
			}
		}
		judged := map[string]bool{string(path): true}
		for _, how := range http1.Readings(sent) {
			judged[string(how.Append(nil, sent))] = true
		}
		for _, how := range allReadings {
			got := string(how.Append(nil, sent))
			if want := oracle(how, string(sent)); got != want {
				t.Errorf("%q: %q in reading %d, want %q", sent, got, how, want)
			}
			slashes := strings.ReplaceAll(got, http1.EncodedSlash, "/") + "/"
			if !judged[got] || strings.Contains(slashes, "/./") || strings.Contains(slashes, "/../") {
				t.Errorf("%q: reading %d, %q, is not judged, or has dots", sent, how, got)
			}
			// A part of a reading in which nothing is merged is the same part of what goes on.
			for to := 1; to <= len(got) && (how == http1.Decoded || how == http1.AllKept); to++ {
				if part := how.Raw(sent, to/2, to); string(how.Append(nil, part)) != got[to/2:to] {
					t.Errorf("%q: the part %d to %d of reading %d is %q", sent, to/2, to, how, part)
				}
			}
		}
		if merged := http1.AppendMerged(nil, sent); bytes.Contains(merged, []byte("//")) ||
			oracle(http1.EncodedKept, string(merged)) != oracle(http1.EncodedKept, string(sent)) {
			t.Errorf("%q: %q without empty segments", sent, merged)
		}
	})
}

func TestReadingRaw(t *testing.T) {
	for _, c := range []struct {
		how      http1.Reading
		sent     string
		from, to int
		want     string
	}{
		{http1.Merged, "/k/a%2Fb", 3, 6, "a%2Fb"}, {http1.Merged, "/k/a%2Fb", 3, 4, "a"},
		{http1.Merged, "/k/a%2Fb", 4, 5, "%2F"},
		{http1.Merged, "/k//a%3B/", 3, 5, "a%3B"}, {http1.Merged, "/k//a", 0, 2, "/k"},
		{http1.Merged, "/k//a", 0, 3, "/k/"},
		{http1.Merged, "/k//a", 2, 4, "//a"}, {http1.Merged, "/k", 2, 2, ""},
		{http1.Merged, "/k", 1, 1, ""},
		{http1.EncodedKept, "/k/a%2f%2F", 3, 6, "a%2f%2F"}, {http1.Decoded, "/k//%2Fa", 2, 6, "//%2Fa"},
	} {
		if got := c.how.Raw([]byte(c.sent), c.from, c.to); string(got) != c.want {
			t.Errorf("%d of %s, %d to %d: got %q, want %q", c.how, c.sent, c.from, c.to, got, c.want)
		}
	}
}

func TestAppendBelow(t *testing.T) {
	for _, c := range []struct {
		sent string
		n    int // of the prefix
		want string
	}{
		{"/", 0, "/"}, {"/a%2Fb", 0, "/a%2Fb"}, {"/app", 4, ""}, {"/app/", 4, "/"},
		{"/app/a%2Fb//c", 4, "/a%2Fb//c"},
		{"/%61pp/x%2Fy", 4, "/x%2Fy"}, {"/app//x", 4, "//x"}, {"/app/%2Fx", 4, "/%2Fx"},
		{"/app/%2Fx%3B", 4, "/%2Fx%3B"},
		// Its slashes were read in one way, and so are those that follow.
		{"/app%2Fx%2Fy", 4, "/x/y"}, {"/app%2F", 4, "/"}, {"/app%2F%2Fx", 4, "/x"},
		{"/a//b/x//y", 4, "/x/y"},
		{"/a%2Fb/x%2Fy", 4, "/x/y"}, {"/%2Fapp/x%2Fy", 4, "/x/y"}, {"/%2Fapp", 4, ""}, {"/a%2Fb", 4, ""},
	} {
		sent := []byte(c.sent)
		if got := http1.AppendBelow([]byte("at "), sent, c.n); string(got) != "at "+c.want ||
			string(sent) != c.sent {
			t.Errorf("%s, %d: got %q, want %q", c.sent, c.n, got, c.want)
		}
	}
}
