package http1_test

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http1"
)

var paths = []struct {
	raw, want string
	err       error
}{
	{"", "/", nil},
	{"/", "/", nil},
	{"/a", "/a", nil},
	{"/a/", "/a/", nil},
	{"/a/b.c/d..e/...f/...", "/a/b.c/d..e/...f/...", nil},
	{"/.a/..b", "/.a/..b", nil},
	{"/\xff\xc3\xbc", "/\xff\xc3\xbc", nil},
	{"/a b", "/a b", nil}, // a request target has none, but a decoded path may
	// Empty segments.
	{"//", "/", nil},
	{"//a", "/a", nil},
	{"/a//b///c//", "/a/b/c/", nil},
	// Dot segments (RFC 3986 section 5.2.4).
	{"/.", "/", nil},
	{"/./", "/", nil},
	{"/a/.", "/a/", nil},
	{"/a/./b", "/a/b", nil},
	{"/a/..", "/", nil},
	{"/a/../", "/", nil},
	{"/a/b/..", "/a/", nil},
	{"/a/b/../c", "/a/c", nil},
	{"/a/b/../../c", "/c", nil},
	{"/a//../b", "/b", nil},
	{"/mid/content=5/../6", "/mid/6", nil},
	{"/a/...", "/a/...", nil},
	{"/..", "", http1.ErrPathAbove},
	{"/../", "", http1.ErrPathAbove},
	{"/../a", "", http1.ErrPathAbove},
	{"/a/../..", "", http1.ErrPathAbove},
	{"/a/../../b", "", http1.ErrPathAbove},
	{"/./..", "", http1.ErrPathAbove},
	// net/http's path.Clean and a file system agree: the empty segment is nothing
	{"//..", "", http1.ErrPathAbove},
	// Encodings, decoded once, then resolved with the rest.
	{"/%41", "/A", nil},
	{"/a%20b", "/a b", nil},
	{"/%c3%BC", "/\xc3\xbc", nil},
	{"/%25", "/%", nil},
	{"/%252e%252e/", "/%2e%2e/", nil},
	{"/a/%2e%2E/b", "/b", nil},
	{"/a/.%2e/b", "/b", nil},
	{"/a/%2e", "/a/", nil},
	{"/a%2Fb", "/a/b", nil},
	{"/a%2f..%2fb", "/b", nil},
	{"/a/%2f/b", "/a/b", nil},
	{"/%2f%2e%2e", "", http1.ErrPathAbove},
	{"/%2e%2e%2fetc/passwd", "", http1.ErrPathAbove},
	{"/..%2f", "", http1.ErrPathAbove},
	{"/..%5c..", "/..\\..", nil}, // a backslash is a character of a name here
	{"/%3f%23", "/?#", nil},
	// Malformed.
	{"/%", "", http1.ErrPath},
	{"/%4", "", http1.ErrPath},
	{"/%4g", "", http1.ErrPath},
	{"/%g4", "", http1.ErrPath},
	{"/%%41", "", http1.ErrPath},
	{"/%+1", "", http1.ErrPath},
	{"/%u0041", "", http1.ErrPath},
	{"/%00", "", http1.ErrPath},
	{"/a%00.png", "", http1.ErrPath},
	{"/%0d%0aX: y", "", http1.ErrPath},
	{"/%1f", "", http1.ErrPath},
	{"/%7f", "", http1.ErrPath},
	{"/a\x00", "", http1.ErrPath},
	{"/\t", "", http1.ErrPath},
	{"/\x7f", "", http1.ErrPath},
	{"a", "", http1.ErrPath},
	{"*", "", http1.ErrPath},
	{"%2f", "", http1.ErrPath},
}

func TestCleanPath(t *testing.T) {
	for _, tt := range paths {
		raw := []byte(tt.raw)
		got, err := http1.CleanPath(nil, raw)
		if string(got) != tt.want || err != tt.err {
			t.Errorf("CleanPath(%q) = %q, %v, want %q, %v", tt.raw, got, err, tt.want, tt.err)
		}
		if string(raw) != tt.raw {
			t.Errorf("CleanPath(%q) wrote to raw: %q", tt.raw, raw)
		}
		if tt.raw == tt.want && &got[0] != &raw[0] {
			t.Errorf("CleanPath(%q) copied", tt.raw)
		}
		if got, err := http1.CleanPath(raw[:0], raw); string(got) != tt.want || err != tt.err {
			t.Errorf("in place: CleanPath(%q) = %q, %v, want %q, %v", tt.raw, got, err, tt.want, tt.err)
		}
	}
}

func TestCleanPathAllocations(t *testing.T) {
	dst := make([]byte, 0, 64)
	for _, s := range []string{"/", "/a/b", "/a%20b/../c//d"} {
		raw := []byte(s)
		if n := testing.AllocsPerRun(100, func() { http1.CleanPath(dst, raw) }); n != 0 {
			t.Errorf("%q: %v allocations", s, n)
		}
	}
}

// Dot segments in long rows are taken back one by one; that must not cost a walk over the whole
// path each time.
func BenchmarkCleanPath(b *testing.B) {
	for name, s := range map[string]string{
		"root": "/", "clean": "/static/css/site.css", "encoded": "/a%20b/c/../d",
		"up": strings.Repeat("/a", 1000) + strings.Repeat("/..", 1000),
	} {
		b.Run(name, func(b *testing.B) {
			raw, dst := []byte(s), make([]byte, 0, len(s))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := http1.CleanPath(dst, raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzCleanPath(f *testing.F) {
	for _, tt := range paths {
		f.Add([]byte(tt.raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := http1.CleanPath(nil, raw)
		if inPlace, err2 := http1.CleanPath(append([]byte(nil), raw...)[:0], raw); err2 != err ||
			string(inPlace) != string(got) {
			t.Fatalf("with room: %q, %v; without: %q, %v", inPlace, err2, got, err)
		}
		decoded, badEscape := url.PathUnescape(string(raw))
		if err != nil {
			// The standard library's reading of the path gives the reason for a refusal, too.
			depth, above := 0, false
			for _, s := range strings.Split(decoded, "/") {
				switch s {
				case "", ".":
				case "..":
					depth--
					above = above || depth < 0
				default:
					depth++
				}
			}
			control := strings.ContainsFunc(decoded, func(r rune) bool { return r < 0x20 || r == 0x7f })
			if badEscape == nil && !control && !above && strings.HasPrefix(string(raw), "/") {
				t.Fatalf("%q refused: %v", raw, err)
			}
			return
		}
		want := path.Clean("/" + decoded)
		last := decoded[strings.LastIndexByte(decoded, '/')+1:]
		if want != "/" && (last == "" || last == "." || last == "..") {
			want += "/"
		}
		if string(got) != want {
			t.Fatalf("CleanPath(%q) = %q, want %q", raw, got, want)
		}
	})
}

func TestSplitPath(t *testing.T) {
	for _, c := range []struct {
		raw, want string
		clean     bool
		why       string
	}{
		{"/a/b", "/a/b", true, "as it is"},
		{"", "/", true, "an absolute target without a path"},
		{"/a%20b", "/a b", true, "decoded"},
		{"/a|%2F", "/a|\x00", true, "what goes on encoded"},
		{"/a%2Fb/c", "/a\x00b/c", true, "an encoded slash is part of its segment"},
		{"/%2fa%2F", "/\x00a\x00", true, "at its beginning, too"},
		{"/a%2F/b", "/a\x00/b", true, "and at its end"},
		{"/x/https%3A%2F%2Fy/z", "/x/https:\x00\x00y/z", true, "two of them"},
		{"//a", "/a", false, "an empty segment"},
		{"/a/./b", "/a/b", false, "a dot segment"},
		{"/x/%2e%2E/b", "/b", false, "an encoded one"},
		{"/x%2F..%2Fb", "/b", false, "one between encoded slashes"},
		{"/a/x%2Fb/../c", "/a/x/c", false, "two dots go back by a segment"},
		{"//a%2Fb", "/a/b", false, "an empty segment before it"},
	} {
		path := must.Get(http1.CleanPath(nil, []byte(c.raw)))(t)
		if got, clean := http1.SplitPath(path, []byte(c.raw)); string(got) != c.want || clean != c.clean {
			t.Errorf("%s: got %q, %v (%s)", c.raw, got, clean, c.why)
		}
	}
}
