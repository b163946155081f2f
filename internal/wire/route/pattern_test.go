package route_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/route"
)

func TestInvalidPatterns(t *testing.T) {
	for _, c := range []struct{ pattern, want string }{
		{"", "has no path: a slash is missing"},
		{"GET", "has no path: a slash is missing"},
		{"GET a", "has no path: a slash is missing"},
		{" /", "begins with a space"},
		{"get /", `"get" is not a method in upper case`},
		{"G@T /", `"G@T" is not a method`},
		{"PRI /", `"PRI" is not a method`},
		{"CONNECT /", "no handler gets CONNECT: this server is no proxy"},
		{"GET a b/", "more than one space-separated word before the path"},
		{"{host}/", "a host cannot have a wildcard, and a path begins with a slash"},
		{"GET {id}/x", "a host cannot have a wildcard, and a path begins with a slash"},
		{"a.com:80/", "a host is named without its port"},
		{"[::1]:80/", "a host is named without its port"},
		{"./", "has an empty host"},
		// the Kelvin sign
		{"\u212a.test/", "international names are written in their ASCII form, xn--..."},
		{"/a//b", "has an empty segment, which no clean path has"},
		{"//", "has an empty segment, which no clean path has"},
		{"/a/../b", "has a dot segment, which no clean path has"},
		{"/%2e", "has a dot segment, which no clean path has"},
		{"/a%00", "has a control character, which no path has"},
		{"/a{x}", `"a{x}": a wildcard is a whole segment`},
		{"/{x}a", `"{x}a": a wildcard ends with a brace, and is a whole segment`},
		{"/{", `"{": a wildcard ends with a brace, and is a whole segment`},
		{"/{}", `"{}": the name of a wildcard is a Go identifier`},
		{"/{...}", `"{...}": the name of a wildcard is a Go identifier`},
		{"/{1a}", `"{1a}": the name of a wildcard is a Go identifier`},
		{"/{a-b}", `"{a-b}": the name of a wildcard is a Go identifier`},
		{"/{x}/{x}", `has two wildcards with the name "x"`},
		{"/{x...}/a", "{x...} stands at the end only"},
		{"/{x...}/", "{x...} stands at the end only"},
		{"/{$}/", "{$} stands at the end only"},
	} {
		if _, err := route.Parse(c.pattern); fmt.Sprint(err) != c.want {
			t.Errorf("%q: got %v, want %s", c.pattern, err, c.want)
		}
	}
}

// A pattern has the path up to its first wildcard as its prefix.
func TestPrefixes(t *testing.T) {
	for pattern, want := range map[string]string{"/": "", "GET /{$}": "", "/a/b": "/a/b",
		"/a/b/":             "/a/b",
		"a.com/a%20b/{x}/c": "/a b", "/{x}": "", "/a/{x...}": "/a", "/a%2Fb/{$}": "/a/b"} {
		if p, err := route.Parse(pattern); err != nil || p.Prefix != want {
			t.Errorf("%s: %+v, %v, want %q", pattern, p, err, want)
		}
	}
}

func TestConflicts(t *testing.T) {
	for _, c := range []struct{ a, b, why string }{ // why: "" if there is none
		{"/a", "/a", "both match the same requests"},
		{"/{x}", "/{y}", "both match the same requests"},
		{"/a/", "/a/{x...}", "both match the same requests"},
		{"A.com/", "a.COM./", "both match the same requests"},
		{"/%61", "/a", "both match the same requests"},
		{"/a/{x}", "/{y}/b", "both match some paths, and neither is more specific"},
		{"GET /a/{x}", "/{y}/b", "both match some paths, and neither is more specific"},
		{"/a/{x...}", "/{y}/b/", "both match some paths, and neither is more specific"},
		{"/a", "GET /", "the first has the more specific path, the second the more specific method"},
		{"GET /a", "HEAD /{x}",
			"the first has the more specific path, the second the more specific method"},
		{"GET /{x}", "/a", "the first has the more specific method, the second the more specific path"},
		{"GET /a", "POST /a", ""},
		{"GET /a", "HEAD /a", ""},
		{"GET /a", "/a", ""},
		{"/a", "a.com/a", ""},
		{"/a", "/a/", ""},
		{"/a/{$}", "/a/", ""},
		{"/a/{$}", "/a/{x}", ""},
		{"/a%2Fb", "/a/b", ""},
		{"/{x}/a", "/{x}/b", ""},
	} {
		a := must.Get(route.Parse(c.a))(t)
		b := must.Get(route.Parse(c.b))(t)
		a.Caller, b.Caller = "main.go:2", "main.go:1"
		want := "<nil>"
		if c.why != "" {
			want = fmt.Sprintf("%q (main.go:2) conflicts with %q (main.go:1): %s", c.a, c.b, c.why)
		}
		if got := route.Conflict(a, b); fmt.Sprint(got) != want {
			t.Errorf("got\n%v\nwant\n%s", got, want)
		}
		if back := route.Conflict(b, a); (back == nil) != (c.why == "") {
			t.Errorf("%s, %s: the other way round %v", c.a, c.b, back)
		}
	}
}

// Any two texts: what is accepted here, net/http accepts; both see the same conflicts, and the one
// that wins is the same. Any path is split without a panic.
func FuzzPattern(f *testing.F) {
	for _, seed := range [][3]string{
		{"GET /items/{id}", "/items/{id}/{rest...}", "/items/a%2Fb"},
		{"a.com/{$}", "HEAD a.com/", "/"},
		{"/%61/{x}", "/a/b%2Fc", "/a/b%2fc"},
		{"POST\t /é/{é}", "/{_}/é/", "/%C3%A9/é"},
		{"/a/../{", "{x}/", "/a/%2e%2e/b"},
		{"/a%zz", "/a%25zz", "/a%25zz"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, one, two, raw string) {
		var mux http.ServeMux
		var tree route.Tree
		var first *route.Pattern
		for _, text := range []string{one, two} {
			p, err := route.Parse(text)
			if err != nil {
				continue
			}
			var conflict error
			if first != nil {
				conflict = route.Conflict(p, first)
			}
			// Hosts are compared in another way, so these conflict in other cases.
			theirs := func() (text string) {
				defer func() {
					if p := recover(); p != nil {
						text = fmt.Sprint(p)
					}
				}()
				mux.Handle(p.Text, http.NotFoundHandler())
				return ""
			}()
			if p.Host == "" && (theirs == "") != (conflict == nil) {
				t.Fatalf("%q behind %v: %v, net/http: %s", text, first, conflict, theirs)
			}
			if p.Host != "" && theirs != "" && !strings.Contains(theirs, "conflicts") {
				t.Fatalf("%q: net/http: %s", text, theirs)
			}
			if theirs == "" {
				first = p
				tree.Add(p)
			}
		}
		path, err := http1.CleanPath(nil, []byte(raw))
		if err != nil {
			return
		}
		split, _ := http1.SplitPath(path, []byte(raw))
		p, values := tree.Find("GET", []byte("a.com"), split, nil)
		if p == nil {
			return
		}
		if len(values) != len(p.Names) {
			t.Fatalf("%s: %d values", p, len(values))
		}
		for i, v := range values {
			if v[0] > v[1] || int(v[1]) > len(path) {
				t.Fatalf("%s: value %d: %v of %q", p, i, v, path)
			}
		}
		tree.Allowed([]byte("a.com"), split)
		tree.Slashed("GET", []byte("a.com"), split, p)
	})
}
