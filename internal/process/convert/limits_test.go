package convert_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/process/convert"
	"github.com/lwango/lwango/internal/test/must"
)

// TestLimits: what is too large, and what includes itself, is refused with the file and the reason.
func TestLimits(t *testing.T) {
	long := strings.Repeat("# a comment of some length\n", 10<<20/27)
	chain := map[string]string{"nginx.conf": "include 0;"}
	for i := range 20 {
		chain[fmt.Sprint(i)] = fmt.Sprintf("include %d;", i+1)
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"ten megabytes", map[string]string{"nginx.conf": long}, "more than 8 MiB"},
		{"ten megabytes in two files", map[string]string{"nginx.conf": "include a; include a;",
			"a": long[:5<<20]}, "nginx.conf:1: .*/a: the configuration has more than 8 MiB"},
		{"a circle", map[string]string{"nginx.conf": "include a;", "a": "http {\ninclude b;\n}",
			"b": "include a;"}, "nginx.conf:1: a:2: b:1: .*/a includes itself"},
		{"a pattern that has its file", map[string]string{"nginx.conf": "include *;"}, "includes itself"},
		{"a long chain", chain, "more than 16 files include each other"},
		{"nested blocks", map[string]string{"nginx.conf": strings.Repeat("a {", 50)},
			"more than 32 blocks in each other"},
		{"many directives", map[string]string{"nginx.conf": strings.Repeat("a;", 300_000)},
			"nginx.conf:1: there are more than 200000 directives"},
		{"many locations", map[string]string{"nginx.conf": "server {\n" +
			strings.Repeat("location /a { }", 3000) + "}"}, "a server has more than 2000 locations"},
		{"a folder", map[string]string{"nginx.conf": "include a;", "a/b": ""}, "no regular file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				name = filepath.Join(dir, name)
				must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
				must.Do(t, os.WriteFile(name, []byte(text), 0o600))
			}
			_, _, err := convert.File(filepath.Join(dir, "nginx.conf"))
			if ok, _ := regexp.MatchString(c.want, fmt.Sprint(err)); !ok {
				t.Errorf("found %v, expected %s", err, c.want)
			}
		})
	}
}

// TestManyOfAll: the largest configurations that are taken do not take long.
func TestManyOfAll(t *testing.T) {
	var b strings.Builder
	b.WriteString("http {\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "upstream u%d { server 10.0.0.1:%d; }\nmap $host $m%d { default $m%d; }\n"+
			"server { listen 80; server_name s%d.example.org; return 301 http://$m%d/; }\n",
			i, i+1, i, max(i-1, 0), i, i)
	}
	b.WriteString("server { listen 80; root /srv; ")
	for i := range 1990 {
		fmt.Fprintf(&b, "location ~ ^/%d/.*\\.php$ { fastcgi_pass u%d; set $a%d $a%d$a%d; }\n", i, i%1000,
			i, i+1, i+1)
	}
	b.WriteString("}}")
	file := filepath.Join(t.TempDir(), "nginx.conf")
	must.Do(t, os.WriteFile(file, []byte(b.String()), 0o600))
	text, _, err := convert.File(file)
	must.Do(t, err)
	if n := strings.Count(text, "[[site]]"); n != 1001 {
		t.Errorf("%d sites", n)
	}
}
