package settings_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"github.com/lwango/lwango/internal/base/settings"
)

func TestLines(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain", "a = 1\n\n# b = 2\nc = 3", "a:1, c:4"},
		{"carriage returns", "a = 1\r\nb = 2\r\n", "a:1, b:2"},
		{"byte order mark", "\xef\xbb\xbfa = 1\nb = 2", "a:1, b:2"},
		{"dotted", "a.b.c = 1\na . d = 2", "a:1, a.b:1, a.b.c:1, a.d:2"},
		{"quoted", "\"a b\" = 1\n'c.d' = 2\n\"\\u0065\" = 3\n\"\" = 4", `"":4, "a b":1, "c.d":2, e:3`},
		{"table", "[a]\nb = 1\n[ a . \"c\" ]\nd = 1", "a:1, a.b:2, a.c:3, a.c.d:4"},
		{"list of tables", "[[a]]\nb = 1\n[[a]]\nb = 2", "a:1, a[0]:1, a[0].b:2, a[1]:3, a[1].b:4"},
		{"lists in lists", "[[a]]\n[[a.b]]\nc = 1\n[[a]]\n[[a.b]]\nc = 1\n[[a.b]]\n[a.b.d]\ne = 1",
			"a:1, a[0]:1, a[0].b:2, a[0].b[0]:2, a[0].b[0].c:3, a[1]:4, a[1].b:5, a[1].b[0]:5, " +
				"a[1].b[0].c:6, " +
				"a[1].b[1]:7, a[1].b[1].d:8, a[1].b[1].d.e:9"},
		{"arrays", "a = [1, # ]\n  \"]\",\n  [2,\n3]]\nb = []",
			"a:1, a[0]:1, a[1]:2, a[2]:3, a[2][0]:3, a[2][1]:4, b:5"},
		{"inline tables", "a = { b = 1, c = { d = 2 } }\ne = [{ f = 1 }, {\n f = 2, }]\ng = {}",
			"a:1, a.b:1, a.c:1, a.c.d:1, e:2, e[0]:2, e[0].f:2, e[1]:2, e[1].f:3, g:4"},
		{"long strings", `a = """` + "\n[b]\n" + `c = 1 \""""` + "\nd = '\x27'\n#'' \n'\x27'\n" +
			`e = """x"""""` +
			"\nf = \x27\x27\x27\x27a\x27\x27\x27\x27\x27\ng = \"\"\nh = ''",
			"a:1, d:4, e:7, f:8, g:9, h:10"},
		{"dates with a space", "a = 1979-05-27 07:32:00\nb = 1", "a:1, b:2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := toml.Decode(test.text, new(map[string]any)); err != nil {
				t.Fatalf("the row is not TOML: %v", err)
			}
			var got []string
			for path, line := range settings.ScanLines(test.text) {
				got = append(got, fmt.Sprintf("%s:%d", path, line))
			}
			slices.Sort(got)
			want := strings.Split(test.want, ", ")
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// seeds are starting points for both fuzz targets: one of each construct.
var seeds = []string{
	"", "a = 1", "a.b.'c d'.\"e\\u0041\" = [1, 'x', {y = 2}]",
	"[[site]]\nhost = ['a']\n[[site.route]]\nprefix = '/'\n",
	"[[a]]\n[a.b]\nc=1\n[[a]]\n[a.b]\nd=1", "a = '''x\n'''''\nb = \"\"\"\\\n  y\"\"\"",
	"threads = 1 # c\r\nheaders = { a = 'b' }\n",
	"a=[[[[", "{}[]=.,'", "a = 1979-05-27 07:32:00Z\nb = 0x1F\nc = inf",
	"listener = [{address='x', tls=[{cert='c'}]}]",
	"\xff\xfea = 1", "\xfe\xffa = 1",
	"keep_alive_timeout = '1h'\nmax_body_size = '3KiB'\n[access_log]\npath = 1\n",
}

// Each key that the toml package finds has a line, between the first and the last of the text; and
// text that is not TOML neither hangs nor panics.
func FuzzLines(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines := settings.ScanLines(text)
		last := strings.Count(text, "\n") + 1
		for path, line := range lines {
			if line < 1 || line > last {
				t.Errorf("%s is on line %d of %d", path, line, last)
			}
		}
		var root map[string]any
		if _, err := toml.Decode(text, &root); err != nil {
			return
		}
		for key, value := range root {
			checkLines(t, lines, settings.ChildPath("", key), value)
		}
	})
}

func checkLines(t *testing.T, lines map[string]int, path string, value any) {
	if lines[path] == 0 {
		t.Errorf("no line for %s in %v", path, lines)
	}
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			checkLines(t, lines, settings.ChildPath(path, key), v)
		}
	case []map[string]any:
		if lines[fmt.Sprintf("%s[%d]", path, len(value))] != 0 {
			return // a mixed array, of which the TOML library leaves out what is no table
		}
		for i, v := range value {
			checkLines(t, lines, fmt.Sprintf("%s[%d]", path, i), v)
		}
	case []any:
		for i, v := range value {
			checkLines(t, lines, fmt.Sprintf("%s[%d]", path, i), v)
		}
	}
}

// Whatever the text, decoding ends without a panic, and every error has a line of the text; also
// where the text includes itself.
func FuzzDecode(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := load(text)
		twice := settings.Parse("once", ".", text)
		twice.Include("again", text)
		twice.Root().Decode(new(config))
		last := strings.Count(text, "\n") + 1
		for _, err := range []error{err, twice.Err()} {
			all, _ := err.(settings.Errors)
			for _, e := range all {
				if e.Line < 1 || e.Line > last || e.File == "" {
					t.Errorf("an error on line %d of %d: %v", e.Line, last, e)
				}
			}
		}
	})
}
