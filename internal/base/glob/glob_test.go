package glob_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lwango/lwango/internal/base/glob"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http1"
)

// match asks both ways.
func match(pattern, path string) (bool, error) {
	g, err := glob.Parse(pattern)
	if err != nil {
		return false, err
	}
	ok := g.Match(path)
	if g.MatchBytes([]byte(path)) != ok {
		return false, errors.New("another answer for bytes")
	}
	return ok, nil
}

func TestGlob(t *testing.T) {
	for _, c := range []struct{ pattern, yes, no string }{
		{"/", "/", "/a"},
		{"/a", "/a", "/ /a/ /ab /a/b /A"},
		{"/a/", "/a/", "/a /a/b"},
		{"/a.b", "/a.b", "/axb"},
		{"/*", "/ /a /é", "/a/ /a/b"},
		{"/*/", "/a/", "/ /a"},
		{"/a*", "/a /ab", "/b /ab/ /ab/c"},
		{"/a*c*e", "/ace /abcde /aceceXe", "/abe /acef"},
		{"/?", "/a /é /\xff", "/ /ab /a/"},
		{"/?b*?", "/abc /ébé", "/ab /xbc/"},
		{"/data/**", "/data /data/ /data/a /data/a/b", "/datax /datax/a /x/data/a /Data/a"},
		{"/**", "/ /a /a/b/", ""},
		{"/**/", "/ /a/ /a/b/", "/a"},
		{"/**/x", "/x /a/x /a/b/x /x/x", "/x/ /ax /x/a"},
		{"/a/**/b", "/a/b /a/x/b /a/x/y/b /a/b/b", "/a /a/ /ab /a/bb /b"},
		{"/a/**/**/b", "/a/b /a/x/y/b", "/a"},
		{"/a/**/b/**/c", "/a/b/c /a/x/b/y/z/c /a/b/b/c", "/a/c /a/b /a/c/b"},
		{"/**/*.php/**", "/a.php /x/a.php /x/a.php/info/b", "/a.phps /php /x/.phpx"},
		{"/a/*/b/**/*.js", "/a/x/b/y.js /a/x/b/z/y.js", "/a/b/y.js /a/x/y.js"},
		{"*.sql", "/a.sql /x/a.sql /a.sql/ /a.sql/b /.sql", "/a.SQL /a.sqlx /sql/a"},
		{"wp-config.php", "/wp-config.php /a/wp-config.php /wp-config.php/x",
			"/xwp-config.php /wp-config.phpx"},
		{"*", "/a /a/", "/"},
		{"?", "/a /x/é", "/ab /"},
		{"*~", "/a~ /~/b", "/a"},
	} {
		for _, path := range strings.Fields(c.yes) {
			if ok, err := match(c.pattern, path); !ok || err != nil {
				t.Errorf("%s does not match %q: %v", c.pattern, path, err)
			}
		}
		for _, path := range strings.Fields(c.no) {
			if ok, err := match(c.pattern, path); ok || err != nil {
				t.Errorf("%s matches %q: %v", c.pattern, path, err)
			}
		}
	}
}

func TestGlobErrors(t *testing.T) {
	for pattern, want := range map[string]string{
		"":         "an empty pattern matches no path",
		"**":       `"**": every path is "/**"`,
		"a/b":      `"a/b": a pattern with a slash in it begins with one (/a/b), or with "/**/" for any folder`,
		"/a**":     `"/a**": ** stands between slashes, as in "/data/**"`,
		"**.php":   `"**.php": ** stands between slashes, as in "/data/**"`,
		"/a//b":    `"/a//b": has an empty segment, which no cleaned path has`,
		"/a/../b":  `"/a/../b": has a dot segment, which no cleaned path has`,
		"/[ab]":    `"/[ab]": a pattern knows *, ** and ?; write several patterns for more`,
		"*.{a,b}":  `"*.{a,b}": a pattern knows *, ** and ?; write several patterns for more`,
		"/a%20b":   `"/a%20b": patterns are compared with decoded paths; write the character instead of %20`,
		"/a?b=c":   `"/a?b=c": a path has no query in it`,
		"/a\x00":   `"/a\x00": no path has a control character`,
		"/x/.":     `"/x/.": has a dot segment, which no cleaned path has`,
		"dir/*.js": `"dir/*.js": a pattern with a slash in it begins with one (/dir/*.js), or with "/**/" for any folder`,
	} {
		if _, err := match(pattern, "/"); err == nil || err.Error() != want {
			t.Errorf("%q: got  %v\nwant %s", pattern, err, want)
		}
	}
}

func TestValue(t *testing.T) {
	for _, c := range []struct {
		pattern, value string
		want           bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b", true}, {"a*", "b", false},
		{"**a", "xa", true}, {"*bot*", "a/bot", true}, {"*bot*", "bo", false}, {"**", "a", true},
		{"*?*", "", false}, {"?", "é", true}, {"text/*", "text/html; a=b", true},
	} {
		v := glob.NewValue(c.pattern)
		if got := v.Match([]byte(c.value)); got != c.want {
			t.Errorf("%q, %q: got %v", c.pattern, c.value, got)
		}
	}
}

func TestMatchingAllocatesNothing(t *testing.T) {
	g := must.Get(glob.Parse("/**/*a?c*/**"))(t)
	v := glob.NewValue("*a?c*")
	long := []byte("/x/y/" + strings.Repeat("z", 100))
	if n := testing.AllocsPerRun(100, func() { g.MatchBytes(long); v.Match(long) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A long path and a pattern that goes back as often as it can take no longer than their product.
func TestGlobIsNotSlow(t *testing.T) {
	path := strings.Repeat("/a", 8000)
	long := "/" + strings.Repeat("a", 16000)
	began := time.Now()
	for _, p := range []string{
		"/**/a/**/a/**/a/**/b", "/**/a/a/a/a/a/a/b", "/*a*a*a*a*a*a*b", "*a?a*a?a*b?c", "/**/*a*a*b/**",
	} {
		for _, b := range []string{path, long} {
			if ok, err := match(p, b); ok || err != nil {
				t.Errorf("%s: %v, %v", p, ok, err)
			}
		}
	}
	if d := time.Since(began); d > 30*time.Second { // an exponential one would take years
		t.Errorf("took %v", d)
	}
}

// A glob says what its translation into an expression says.
func FuzzGlob(f *testing.F) {
	for _, p := range []string{"/a/**/b*/?c", "*.sql", "/**", "/a/", "/*/**/*.x", "/**/é?/**/"} {
		f.Add(p, "/a/b/xc")
		f.Add(p, "/é\xff/")
	}
	f.Fuzz(func(t *testing.T, pattern, raw string) {
		if len(raw) == 0 || raw[0] != '/' || len(pattern) > 200 ||
			!utf8.ValidString(pattern) || strings.Contains(pattern, "\ufffd") {
			return // no configuration has such a pattern, or the expression means more than it says
		}
		path, err := http1.CleanPath(nil, []byte(raw))
		if err != nil {
			return
		}
		got, err := match(pattern, string(path))
		if err != nil {
			return
		}
		if want := translate(pattern)(path); got != want {
			t.Errorf("pattern %q, path %q: got %v, want %v", pattern, path, got, want)
		}
	})
}

func translate(pattern string) func(path []byte) bool {
	segment := func(s string) string {
		s = regexp.QuoteMeta(s)
		s = strings.ReplaceAll(s, `\*`, `[^/]*`)
		return strings.ReplaceAll(s, `\?`, `[^/]`)
	}
	if !strings.Contains(pattern, "/") {
		re := regexp.MustCompile(`(?s)^(?:` + segment(pattern) + `)$`)
		return func(path []byte) bool {
			for part := range strings.SplitSeq(string(path), "/") {
				if part != "" && re.MatchString(part) {
					return true
				}
			}
			return false
		}
	}
	var b strings.Builder
	b.WriteString(`(?s)^`)
	for _, s := range strings.Split(pattern[1:], "/") {
		if s == "**" {
			b.WriteString(`(?:/[^/]*)*`)
		} else {
			b.WriteString("/" + segment(s))
		}
	}
	return regexp.MustCompile(b.String() + `$`).Match
}
