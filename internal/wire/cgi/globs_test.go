package cgi_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/cgi"
)

func TestGlobs(t *testing.T) {
	for _, tt := range []struct {
		patterns string // separated by spaces
		in, out  string
	}{
		{"", "/a.php /b/c.php", ""},
		{"/**", "/a.php /b/c.php", ""},
		{"/a.php", "/a.php", "/b.php /x/a.php /a.php.php /A.php /aXphp"},
		{"/*.php", "/a.php /.php", "/b/a.php /a.phtml"},
		{"/wp-*.php /wp-admin/**", "/wp-a.php /wp-admin/a.php /wp-admin/b/c.php /wp-admin",
			"/a.php /wp-x/a.php /x/wp-admin/a.php"},
		{"/a/**/x.php", "/a/x.php /a/b/x.php /a/b/c/x.php", "/a/y.php /b/x.php /ax.php"},
		{"/a?.php", "/ab.php /aé.php", "/a.php /abc.php /a/.php"},
		{"x.php", "/x.php /a/x.php /x.php/a.php", "/xx.php /x.phpx"},
		{"/*a*b*/x", "/ab/x /xaybz/x /aab/x", "/ba/x /ab/y /ab /ab/x/x"},
		{"/**/a/**/b", "/a/b /x/a/y/b /a/a/b/b", "/b/a /a /b /a/b/c"},
		{"/*??", "/éa /xéa", "/é /a"},
		{"!vendor", "/a.php /a/b.php /vendors/a.php", "/vendor/a.php /a/vendor/b/c.php"},
		{"!/up/** /up/ok.php", "/a.php /up/ok.php", "/up/a.php /up/b/ok.php"},
		{"/up/** !/up/x.php", "/up/a.php", "/up/x.php /a.php"},
		{"/a.b+c(d).php", "/a.b+c(d).php", "/aXb+c(d).php"},
	} {
		g, err := cgi.ParseGlobs(strings.Fields(tt.patterns))
		if err != nil {
			t.Errorf("%s: %v", tt.patterns, err)
		}
		for _, name := range strings.Fields(tt.in) {
			if !g.Match(name) {
				t.Errorf("%s: %s is out", tt.patterns, name)
			}
		}
		for _, name := range strings.Fields(tt.out) {
			if g.Match(name) {
				t.Errorf("%s: %s is in", tt.patterns, name)
			}
		}
	}
	g, err := cgi.ParseGlobs([]string{"!/uploads/**"})
	if err != nil || !g.Match("/a\nb.php") || g.Match("/uploads/a\nb.php") ||
		g.Match("/uploads/\xff.php") {
		t.Error("names with line ends, or without UTF-8: ", err)
	}
	if g, err := cgi.ParseGlobs([]string{"/**"}); g != nil || err != nil {
		t.Error("the default costs something: ", g, err)
	}
	if n := testing.AllocsPerRun(100, func() { g.Match("/some/script.php") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzGlobs: a pattern without wildcards stands for itself, one that is taken out for all others,
// and each for what it is made of.
func FuzzGlobs(f *testing.F) {
	for _, s := range [][2]string{{"/a.php", "/a.php"}, {"/a/**/b", "/a/x/b"}, {"x?*", "/xy/z"},
		{"/**/**", "/"}, {"/(a|b)+.$", "/a"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if name == "" || name[0] != '/' || !utf8.ValidString(pattern) ||
			strings.HasPrefix(pattern, "!") || pattern == "/**" {
			return
		}
		in, err := cgi.ParseGlobs([]string{pattern})
		if err != nil {
			return
		}
		out, err := cgi.ParseGlobs([]string{"!" + pattern})
		if err != nil || out.Match(name) == in.Match(name) {
			t.Errorf("%q and %q: in and out", pattern, name)
		}
		plain := !strings.ContainsAny(pattern, "*?")
		if pattern[0] == '/' && plain && in.Match(name) != (name == pattern) {
			t.Errorf("%q and %q: %v", pattern, name, in.Match(name))
		}
		own := strings.NewReplacer("**", "x/y", "*", "z", "?", "w").Replace(pattern)
		if own[0] != '/' {
			own = "/" + own
		}
		if !in.Match(own) {
			t.Errorf("%q does not match %q", pattern, own)
		}
	})
}

// TestAllowedScripts: a script that is not in the list is treated as one that does not exist, by
// whatever way it is reached, and its source is not sent.
func TestAllowedScripts(t *testing.T) {
	list := must.Get(cgi.ParseGlobs([]string{"/server.php", "/both/*"}))(t)
	for path, want := range map[string][2]string{ // without front_missing, and with it
		"/server.php":             {"script /server.php"},
		"/server.php/a":           {"script /server.php + /a"},
		"/index.php":              {"not found ", "script /index.php"},
		"/index.php/x":            {"not found ", "script /index.php"},
		"/wp-admin/index.php":     {"not found ", "script /index.php"},
		"/locked.php":             {"not found ", "script /index.php"}, // it is not looked for
		"/wp-admin/":              {"script /index.php"},
		"/wp-admin":               {"script /index.php"},
		"/both/":                  {"script /both/index.php"},
		"/":                       {"script /index.php"},
		"/x":                      {"script /index.php"},
		"/style.css":              {"static /style.css"},
		"/SERVER.PHP":             {"not found "},
		"/notes.php.bak":          {"not found "},
		"/uploads/evil.jpg/x.php": {"not found ", "script /index.php"},
	} {
		for i, missing := range []bool{false, true} {
			r := rules(cgi.Rules{Try: cgi.TryFront, Scripts: list, FrontMissing: missing,
				Index: []string{"index.php", "index.html"}})
			want := want[i*min(1, len(want[1]))]
			if got, err := r.Resolve(site, path); say(got) != want || err != nil {
				t.Errorf("%q, %v: %s, %v, want %s", path, missing, say(got), err, want)
			}
		}
	}
	r := rules(cgi.Rules{Try: cgi.TryNotFound, Scripts: list, Index: []string{"index.php"}})
	for _, path := range []string{"/", "/wp-admin/", "/wp-admin", "/index.php"} {
		if got, err := r.Resolve(site, path); got != (cgi.Target{}) || err != nil {
			t.Errorf("%q: %s, %v", path, say(got), err)
		}
	}
}
