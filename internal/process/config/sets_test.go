package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
)

const sets = `[set.edge]
compression = false
use = []
set = "base"
[[set.edge.rule]]
path = "/.git/**"
deny = 404
[[set.edge.route]]
prefix = "/robots.txt"
module = "response"
status = 204
[set.base]
mirror = { to = "/robots.txt" }
limit = { requests = "10/s" }
[set.app]
module = "proxy"
address = "127.0.0.1:9"
read_timeout = "7s"
[[site]]
host = "a.example"
set = "edge"
[[site.rule]]
path = "/old"
redirect = "/new"
[[site.route]]
prefix = "/"
set = ["app"]
[[site]]
host = "b.example"
set = ["edge"]
compression = true
limit = { requests = "1/s" }
[[site.route]]
prefix = "/"
set = "app"
read_timeout = "9s"
`

// TestSets: sites and routes have the keys of the sets that they use, unless they have their own,
// and -T shows these where they are in force.
func TestSets(t *testing.T) {
	s := source()
	log := new(logtext.Buffer)
	s.Logger = logtext.Logger(t, log)
	c, err := s.Parse("t.conf", sets)
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.Sites[0], c.Sites[1]
	if len(a.Routes) != 2 || a.Routes[1].Prefix != "/robots.txt" || len(b.Routes) != 2 {
		t.Fatalf("routes %+v, %+v", a.Routes, b.Routes)
	}
	if len(a.Around.Rules) != 2 || a.Around.Rules[0].Rule.Redirect != "/new" ||
		a.Around.Rules[1].Table.Position("deny") != "line 7" {
		t.Errorf("rules %+v", a.Around.Rules)
	}
	if a.Around.Limit.Requests.Count != 10 || b.Around.Limit.Requests.Count != 1 {
		t.Errorf("limits %v, %v", a.Around.Limit, b.Around.Limit)
	}
	var reads []time.Duration
	for _, site := range c.Sites {
		set := proxy.Defaults
		site.Routes[0].Rest.Decode(&set)
		reads = append(reads, set.ReadTimeout)
	}
	if want := []time.Duration{7 * time.Second, 9 * time.Second}; !slices.Equal(reads, want) {
		t.Errorf("read_timeout %v, want %v", reads, want)
	}
	var first, second strings.Builder
	if err := c.WriteInForce(&first, s); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(first.String(), "set = ") || strings.Contains(first.String(), "[set") {
		t.Errorf("-T shows sets:\n%s", &first)
	}
	again, err := s.Parse("t.conf", first.String())
	if err != nil {
		t.Fatalf("what -T writes: %v\n%s", err, &first)
	}
	if err := again.WriteInForce(&second, s); err != nil || second.String() != first.String() {
		t.Errorf("-T of what -T writes: %v\n%s\nbefore:\n%s", err, &second, &first)
	}
	if log.String() != "" {
		t.Errorf("logged: %s", log)
	}
}

// TestListsOfSets: what one table has for a list is not lost beside those of a set, and a set that
// is named on two ways counts once.
func TestListsOfSets(t *testing.T) {
	const site = "[[site.route]]\nprefix = '/'\nhandler = 'hello_world'\n"
	const keys = "path = '/a'\ndeny = 404\n" // in lines 2 and 3
	const one, list = "[set.a.rule]\n" + keys, "[[set.a.rule]]\n" + keys
	const uses = "[[site]]\nset = 'a'\n"
	for text, want := range map[string][]string{
		one + uses + "[site.rule]\n" + keys + site:                       {"line 8", "line 3"},
		one + uses + "[[site.rule]]\n" + keys + site:                     {"line 8", "line 3"},
		list + uses + "[site.rule]\n" + keys + site:                      {"line 8", "line 3"},
		list + "[set.b]\nset = 'a'\n[[site]]\nset = ['b', 'a']\n" + site: {"line 3"},
		one + "[set.b]\nset = 'a'\nrule = { deny = 403 }\n[[site]]\nset = 'b'\n" +
			site: {"line 6", "line 3"},
	} {
		c, err := source().Parse("t.conf", text)
		if err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		var got []string
		for _, r := range c.Sites[0].Around.Rules {
			got = append(got, r.Table.Position("deny"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("rules at %q, want %q\n%s", got, want, text)
		}
	}
}

func TestSetErrors(t *testing.T) {
	const site = "[[site]]\n[[site.route]]\nprefix = '/'\nhandler = 'hello_world'\n"
	for text, want := range map[string]string{
		"[set.a]\nset = 'b'\n[set.b]\nset = ['a']\n[[site]]\nset = 'a'\n": `t.conf:4: set.b.set: "a" is ` +
			`used by itself, perhaps through other sets`,
		"[set.a]\nset = 'a'\n":  `t.conf:2: set.a.set: "a" is used by itself, perhaps through other sets`,
		"[[site]]\nset = 'a'\n": `t.conf:2: site.set: there is no [set.NAME] in this configuration`,
		"[set.edge]\n[[site]]\nset = 'edg'\n": `t.conf:3: site.set: there is no [set.NAME] "edg" ` +
			`(did you mean edge?)`,
		"[set.a]\nhstss = 1\n[[site]]\nset = 'a'\n": `t.conf:2: site.hstss: unknown key of what line 3 uses ` +
			`(did you mean hsts?)`,
		"[set.a]\nread_timeout = '1s'\n" + site + "set = 'a'\n": `t.conf:2: site.route.read_timeout: ` +
			`unknown key of what line 4 uses`,
		"[set.a]\nlimit = { requests = 3 }\n[[site]]\nset = 'a'\n[[site]]\nhost = 'b'\nset = 'a'\n": `t.conf:2: ` +
			`site.limit.requests: expected a string, found the integer 3`,
		"set = 3\n":             `t.conf:1: set: expected a table, found the integer 3`,
		"[set]\na = 3\n":        `t.conf:2: set.a: expected a table, found the integer 3`,
		"[[site]]\nset = [3]\n": `t.conf:2: site.set: expected a string, found the integer 3`,
		"[[site]]\nroute = { prefix = '/', handler = 'hello_world', set = 'x' }\n": `t.conf:2: site.route.set: ` +
			`there is no [set.NAME] in this configuration`,
	} {
		_, err := source().Parse("t.conf", text)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got\n%v\nwant\n%s\n%s", err, want, text)
		}
	}
}

func TestUnusedSet(t *testing.T) {
	s := source()
	log := new(logtext.Buffer)
	s.Logger = logtext.Logger(t, log)
	if _, err := s.Parse("t.conf", "[set.a]\nset = 'b'\n[set.b]\n[set.c]\n[[site]]\nset = 'b'\n"); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); strings.Count(text, "no site and no route uses a set") != 2 ||
		!strings.Contains(text, `at="line 1"`) || !strings.Contains(text, `at="line 4"`) {
		t.Errorf("logged %q", text)
	}
}

// TestFiveSites: the example is a whole configuration, and a short one.
func TestFiveSites(t *testing.T) {
	read := must.Get(os.ReadFile("../../../docs/use/five-sites.conf"))(t)
	lines := strings.Split(strings.TrimSpace(string(read)), "\n")
	if len(lines) > 66 {
		t.Errorf("%d lines", len(lines))
	}
	dir := t.TempDir()
	for _, folder := range []string{"srv/wiki", "srv/www", "var/log/lwango"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, folder), 0o700))
	}
	text := strings.NewReplacer(`"/srv/`, `"`+dir+`/srv/`, `"/var/`, `"`+dir+`/var/`).Replace(
		string(read))
	s := source()
	log := new(logtext.Buffer)
	s.Logger = logtext.Logger(t, log)
	c, err := s.Parse(filepath.Join(dir, "lwango.conf"), text)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Sites) != 5 || log.String() != "" {
		t.Errorf("%d sites; logged %q", len(c.Sites), log)
	}
	for _, site := range c.Sites {
		if site.HTTPS.HTTPS != "redirect" || site.HTTPS.HSTS == nil || site.Around.Compression == nil ||
			len(site.Around.Rules) != 1 || len(site.Routes) != 1 {
			t.Errorf("%v is %+v", site.Hosts, site)
		}
	}
}

// TestSecretInSet: a secret that a set has is shown neither in messages nor by -T, wherever the set
// is used.
func TestSecretInSet(t *testing.T) {
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "key"), "sesamopen")
	text := func(more string) string {
		return "[set.a]\nbody = '${file:key}'\n[[site]]\n[[site.route]]\nprefix = '/'\n" +
			"module = 'response'\nset = 'a'\n" + more
	}
	s := source()
	c, err := s.Parse(filepath.Join(dir, "t.conf"), text(""))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := c.WriteInForce(&b, s); err != nil || strings.Contains(b.String(), "sesam") ||
		!strings.Contains(b.String(), `body = "${file:key}"`) {
		t.Errorf("%v\n%s", err, &b)
	}
	_, err = s.Parse(filepath.Join(dir, "t.conf"), strings.Replace(text(""), "body =", "status =", 1))
	if err == nil || strings.Contains(err.Error(), "sesam") || !strings.Contains(err.Error(), "status") {
		t.Errorf("%v", err)
	}
}
