package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/test/logtext"
)

// named is an upstream in lines 1 to 3, and two routes that use it.
const named = `[[upstream]]
name = "app"
address = ["127.0.0.1:9001", "127.0.0.1:9002"]
balance = "least_conn"
health = { path = "/up" }
[[site]]
[[site.route]]
prefix = "/"
module = "proxy"
upstream = "app"
[[site.route]]
prefix = "/slow"
module = "proxy"
upstream = "app"
read_timeout = "10m"
`

func TestNamedUpstream(t *testing.T) {
	s := source()
	log := new(logtext.Buffer)
	s.Logger = logtext.Logger(t, log)
	c, err := s.Parse("t.conf", named)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Upstreams) != 1 || c.Upstreams[0].Site != "upstream app" || c.Upstreams[0].Route != "" {
		t.Errorf("reported are %+v", c.Upstreams)
	}
	if rows := c.Upstreams[0].Report(); len(rows) != 2 || rows[1].Address != "127.0.0.1:9002" {
		t.Errorf("its addresses are %+v", rows)
	}
	if len(c.Background) != 1 {
		t.Errorf("%d goroutines check two addresses of one group", len(c.Background))
	}
	if c.Descriptors != 2 {
		t.Errorf("%d descriptors for checks of two addresses", c.Descriptors)
	}
	if log.String() != "" {
		t.Errorf("logged: %s", log)
	}
	var b strings.Builder
	if err := c.Explain(&b, "http://x/slow"); err != nil || !strings.Contains(b.String(),
		"upstream (line 1): app, of 2 addresses, least_conn\n") {
		t.Errorf("-u says %s, %v", &b, err)
	}
	b.Reset()
	if err := c.WriteInForce(&b, s); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "max_queue"); n != 1 {
		t.Errorf("-T has the keys of the upstream %d times:\n%s", n, &b)
	}
	again, err := s.Parse("t.conf", b.String())
	if err != nil {
		t.Fatalf("what -T writes: %v\n%s", err, &b)
	}
	var second strings.Builder
	if err := again.WriteInForce(&second, s); err != nil || second.String() != b.String() {
		t.Errorf("-T of what -T writes: %v\n%s\nbefore:\n%s", err, &second, &b)
	}
}

// TestNamedUpstreams: routes of each kind use one; the defaults are those of their module.
func TestNamedUpstreams(t *testing.T) {
	for _, lines := range []string{
		"module = 'proxy'", "module = 'uwsgi'", "module = 'scgi'", "module = 'fastcgi'\nscript_path = '.'",
	} {
		s := source()
		text := "[[upstream]]\nname = 'app'\naddress = '127.0.0.1:9001'\nhealth = { type = 'tcp' }\n" +
			"[[site]]\n[[site.route]]\nprefix = '/'\nupstream = 'app'\n" + lines + "\n"
		roundTrip(t, s, text)
	}
	s := source()
	roundTrip(t, s, "[[upstream]]\nname = 'db'\naddress = '127.0.0.1:9001'\nhealth = { type = 'tcp' }\n"+
		"[[stream]]\naddress = '127.0.0.1:5432'\n[[stream.route]]\nupstream = 'db'\n"+
		"[[stream]]\naddress = '127.0.0.1:5433'\n[[stream.route]]\nupstream = 'db'\n")
}

// chosen are two upstreams, a map of their names, and a route that has the map choose.
const chosen = `[[map]]
name = "backend"
from = "{host}"
values = { "a.test" = "one" }
default = "{zone}"
[[map]]
name = "zone"
networks = { "10.0.0.0/8" = "one", "unix:" = "two" }
default = "two"
[[upstream]]
name = "one"
address = "127.0.0.1:9001"
read_timeout = "2m"
[[upstream]]
name = "two"
address = ["127.0.0.1:9002", "127.0.0.1:9003"]
[[site]]
[[site.route]]
prefix = "/"
module = "proxy"
upstream = "{backend}"
`

// TestChosenUpstream: a route has the upstreams that a map stands for.
func TestChosenUpstream(t *testing.T) {
	s := source()
	text := chosen
	for range 2 {
		c, err := s.Parse("t.conf", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if len(c.Upstreams) != 2 {
			t.Errorf("reported are %+v", c.Upstreams)
		}
		for host, want := range map[string]string{"a.test": "one, of 1 addresses",
			"b.test": "two, of 2 addresses"} {
			var b strings.Builder
			if err := c.Explain(&b, "http://"+host+"/"); err != nil || !strings.Contains(b.String(), want) {
				t.Errorf("-u says %s, %v", &b, err)
			}
		}
		var b strings.Builder
		if err := c.WriteInForce(&b, s); err != nil {
			t.Error(err)
		}
		text = b.String()
	}
	for _, row := range []struct{ from, to, want string }{
		{`"{backend}"`, `"{host}"`, `t.conf:21: site.route.upstream: "{host}": {host} is a part of a request; ` +
			`expected maps, whose values are known`},
		{`= "one" }`, `= "{host}" }`, `t.conf:21: site.route.upstream: "{backend}": "{host}", a value of ` +
			`{backend}: {host} is a part of a request; expected maps, whose values are known`},
		{`= "one" }`, `= "none" }`, `t.conf:21: site.route.upstream: there is no [[upstream]] "none" (did ` +
			`you mean one?)`},
		{"default = \"two\"\n", "", `t.conf:20: site.route.upstream: "{backend}" may stand for nothing: a ` +
			`map without a value for all other texts needs a default`},
		{"upstream = \"{b", "split = [{ name = \"x\", share = 5, address = \"127.0.0.1:1\" }]\nupstream = \"{b",
			`t.conf:21: site.route.split: the route's upstream is chosen by "{backend}": let a map split`},
		{"read_timeout", "limit", `t.conf:13: upstream.limit: unknown key`},
		{`"127.0.0.1:9002"`, `"x:x"`, `t.conf:16: upstream.address: `},
		{"upstream = \"{b", "max_conns = 1\nupstream = \"{b", `t.conf:21: site.route.max_conns: belongs to ` +
			`the [[upstream]] "one", which the route uses (line 10)`},
	} {
		_, err := s.Parse("t.conf", strings.Replace(chosen, row.from, row.to, 1))
		if err == nil || !strings.HasPrefix(err.Error(), row.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got  %v\nwant %s", row.to, err, row.want)
		}
	}
}

// roundTrip reads a text, and what -T makes of it.
func roundTrip(t *testing.T, s config.Source, text string) {
	t.Helper()
	for range 2 {
		c, err := s.Parse("t.conf", text)
		if err != nil {
			t.Errorf("%v\n%s", err, text)
			return
		}
		if len(c.Upstreams) != 1 || !strings.HasPrefix(c.Upstreams[0].Site, "upstream ") {
			t.Errorf("%+v\n%s", c.Upstreams, text)
		}
		var b strings.Builder
		if err := c.WriteInForce(&b, s); err != nil {
			t.Error(err)
		}
		text = b.String()
	}
}

func TestNamedUpstreamErrors(t *testing.T) {
	const app = "[[upstream]]\nname = 'app'\naddress = '127.0.0.1:9001'\n"
	const site = "[[site]]\n[[site.route]]\nprefix = '/'\n"
	const proxy = site + "module = 'proxy'\nupstream = 'app'\n"
	for _, test := range []struct {
		text string
		want []string
	}{
		{app + site + "module = 'proxy'\nupstream = 'ap'\n", []string{
			`t.conf:8: site.route.upstream: there is no [[upstream]] "ap" (did you mean app?)`}},
		{proxy, []string{
			`t.conf:5: site.route.upstream: there is no [[upstream]] in this configuration`}},
		{app + site + "module = 'proxy'\nupstream = ''\n", []string{
			`t.conf:8: site.route.upstream: there is no [[upstream]] "" (known: app)`}},
		{app + app + proxy, []string{
			`t.conf:5: upstream.name: "app": another [[upstream]] has that name (line 2)`}},
		{"[[upstream]]\naddress = 'a:1'\n", []string{
			`t.conf:1: upstream.name: missing: what routes use it by`}},
		{"[[upstream]]\nname = 'a b'\naddress = 'a:1'\n", []string{
			`t.conf:2: upstream.name: expected a word, such as "app", not "a b"`}},
		{"[[upstream]]\nname = 'app'\n" + proxy, []string{
			`t.conf:1: upstream.address: missing: where it listens, such as "127.0.0.1:9001"`}},
		{app + proxy + "address = 'a:1'\nmax_conns = 3\n", []string{
			`t.conf:9: site.route.address: belongs to the [[upstream]] "app", which the route uses (line 1)`,
			`t.conf:10: site.route.max_conns: belongs to the [[upstream]] "app", which the route uses (line 1)`}},
		{app + proxy + "[[site.route]]\nprefix = '/b'\nmodule = 'scgi'\nupstream = 'app'\n", []string{
			`t.conf:12: site.route.upstream: "app" is one of proxy (line 8), and an upstream speaks one protocol`}},
		{app + "keep_conn = true\nlimit = 3\n" + proxy, []string{
			`t.conf:4: upstream.keep_conn: the module proxy, whose route uses it (line 10), has no such key`,
			`t.conf:5: upstream.limit: unknown key`}},
		{"[[upstream]]\nname = 'app'\naddress = ['127.0.0.1:9001', 'b:0x']\n" + proxy, []string{
			`t.conf:3: upstream.address: b:0x: expected`}},
		{app + "hash = 'x'\n" + proxy + "[[site.route]]\nprefix = '/b'\nmodule = 'proxy'\nupstream = 'app'\n",
			[]string{`t.conf:4: upstream.hash: it has no effect without balance = "hash"`}},
		{app + "max_conns = -1\n" + proxy, []string{
			`t.conf:4: upstream.max_conns: must be between 0 and 9223372036854775807, found -1`}},
		{app + "sticky = { name = 'x' }\nbalance = 'hash'\nhash = '{uri}'\n" +
			"[[stream]]\naddress = '127.0.0.1:81'\n[[stream.route]]\nupstream = 'app'\n", []string{
			`t.conf:4: upstream.sticky: a [[stream]], whose route uses it (line 10), has no such key`}},
		{app + "health = { path = '/up' }\n" +
			"[[stream]]\naddress = '127.0.0.1:81'\n[[stream.route]]\nupstream = 'app'\nmax_conns = 2\n",
			[]string{`t.conf:9: stream.route.max_conns: belongs to the [[upstream]] "app"`}},
		{app + "health = { path = '/up' }\n" +
			"[[stream]]\naddress = '127.0.0.1:81'\n[[stream.route]]\nupstream = 'app'\n", []string{
			`t.conf:4: upstream.health: a [[stream]], whose route uses it (line 8), has checks with type = "tcp"`}},
	} {
		_, err := source().Parse("t.conf", test.text)
		if err == nil {
			t.Errorf("no error\n%s", test.text)
			continue
		}
		got := strings.Split(err.Error(), "\n")
		for _, want := range test.want {
			if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) }) {
				t.Errorf("got\n%v\nwant\n%s\n%s", err, want, test.text)
			}
		}
		if len(got) > len(test.want) && !strings.Contains(test.text, "balance") {
			t.Errorf("got more than %q:\n%v", test.want, err)
		}
	}
}

func TestUnusedUpstream(t *testing.T) {
	s := source()
	log := new(logtext.Buffer)
	s.Logger = logtext.Logger(t, log)
	if _, err := s.Parse("t.conf", "[[site]]\n[[upstream]]\nname = 'app'\naddress = 'a:1'\n"); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "no route uses an upstream") ||
		!strings.Contains(text, "name=app") || !strings.Contains(text, `at="line 2"`) {
		t.Errorf("logged %q", text)
	}
}
