package settings_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/base/settings"
)

// TestInclude: lists of tables go on in the next file, and each error has its own file and line.
func TestInclude(t *testing.T) {
	f := settings.Parse("main", ".",
		"threads = 1\n[[site]]\nhost = \"a\"\n[[site.route]]\nprefix = 1\n")
	f.Include("b.conf", "[[site]]\nhost = \"b\"\n\n[[site.route]]\nprefix = \"/b\"\nx = 1\n[[site]]\n"+
		"hosts = \"c\"\n[access_log]\npath = \"l\"\n")
	f.Include("c.conf", "site = [{host = \"d\", route = [{prefix = \"/d\"}]}, {host = 4}]\n"+
		"trace = true\nthreads = 2\naccess_log = {path = \"m\"}\nlevle = 1\n")
	var c config
	f.Root().Decode(&c)
	var hosts []string
	for _, s := range c.Sites {
		hosts = append(hosts, slices.Concat(s.Hosts, []string{"|"})...)
	}
	if want := []string{"a", "|", "b", "|", "|", "d", "|", "|"}; !slices.Equal(hosts, want) {
		t.Errorf("hosts %q, want %q", hosts, want)
	}
	if c.Threads != 1 || !c.Trace || c.Log.Path != "l" {
		t.Errorf("%+v", c)
	}
	const want = `main:5: site.route.prefix: expected a string, found the integer 1
b.conf:8: site.hosts: unknown key (did you mean host?)
c.conf:1: site.host: expected a string or a list of them, found the integer 4
c.conf:3: threads: is set already, to another value (main, line 1)
c.conf:4: access_log.path: is set already, to another value (b.conf, line 10)
c.conf:5: levle: unknown key (did you mean level?)`
	if got := f.Err(); got == nil || got.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", got, want)
	}
	rest := c.Sites[1].Routes[0].Rest
	if got := rest.Position("x") + "; " + rest.Position("") + "; " +
		c.Sites[0].Routes[0].Rest.Position(""); got !=
		"b.conf, line 6; b.conf, line 4; line 4" {
		t.Error(got)
	}
}

// TestIncludeMerged: tables of several texts are one, and a key may be said again. What contradicts
// is reported with both places.
func TestIncludeMerged(t *testing.T) {
	t.Setenv("LWANGO_A", "l")
	f := settings.Parse("main", ".", "threads = 1\n[headers]\na = \"1\"\nl = [\"x\", \"y\"]\n")
	f.Include("b.conf", "threads = 1\n[access_log]\npath = \"l\"\n[headers]\nb = \"2\"\na = \"1\"\n"+
		"l = [\"x\", \"y\"]\n")
	f.Include("c.conf", "access_log = { path = \"${LWANGO_A}\" }\n[headers]\na = \"3\"\nl = [\"x\"]\n"+
		"c = \"${LWANGO_A}\"\n")
	f.Include("d.conf", "access_log = 1\n[threads]\nx = 1\n[headers]\nc = 4\n")
	var c config
	f.Root().Decode(&c)
	if c.Threads != 1 || c.Log.Path != "l" || len(c.Headers) != 4 || c.Headers["b"][0] != "2" ||
		len(c.Headers["l"]) != 2 {
		t.Errorf("%+v", c)
	}
	const want = `c.conf:3: headers.a: is set already, to another value (main, line 3)
c.conf:4: headers.l: is set already, to another value (main, line 4)
d.conf:1: access_log: is set already, to another value (b.conf, line 2)
d.conf:2: threads: is set already, to another value (main, line 1)
d.conf:5: headers.c: is set already, to another value (c.conf, line 5)`
	if got := f.Err(); got == nil || got.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", got, want)
	}
	if got := f.Root().Sub("headers").Position("b"); got != "b.conf, line 5" {
		t.Error(got)
	}
}

// TestIncludeOneTable: a table that stands for a list is not merged with one of another text, which
// is another element.
func TestIncludeOneTable(t *testing.T) {
	f := settings.Parse("main", ".", "[site]\nhost = \"a\"\n[access_log]\npath = \"l\"\n")
	f.Top(new(config))
	f.Include("b.conf", "[access_log]\npath = \"l\"\n[site]\n[[site.route]]\nprefix = \"/\"\n")
	const want = "b.conf:3: site: is set already, to another value (main, line 1)"
	if got := f.Err(); got == nil || got.Error() != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestIncludeBroken: a file that is not TOML is reported, and so is what is wrong before it.
func TestIncludeBroken(t *testing.T) {
	f := settings.Parse("main", ".", "threads = 1\n")
	f.Include("b.conf", "threads = \n")
	f.Include("c.conf", "threads = 2\n")
	if !f.Broken() {
		t.Error("not broken")
	}
	const want = "b.conf:1: expected value but found '\\n' instead\n" +
		"c.conf:1: threads: is set already, to another value (main, line 1)"
	if got := f.Err(); got == nil || got.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", got, want)
	}
}

// TestEnvironment: variables are put into strings, wherever these are, and only there.
func TestEnvironment(t *testing.T) {
	t.Setenv("LWANGO_A", "1s")
	t.Setenv("LWANGO_B", `${LWANGO_A}"`+"\nthreads = 9")
	t.Setenv("LWANGO_EMPTY", "")
	f := settings.Parse("main", ".", `keep_alive_timeout = "${LWANGO_A}"
handoff = "chann${LWANGO_EMPTY}el"
[headers]
x = ["a ${LWANGO_B} $b $${1} $${} $${LWANGO-A} $${", "$${LWANGO_A} $$${LWANGO_A}", "${LWANGO_NONE:-d:-e}${LWANGO_EMPTY:-f}${LWANGO_A:-g}${LWANGO_NONE:-}"]
"${LWANGO_A}" = "y"
[[site]]
host = "${LWANGO_A}.${LWANGO_A}"
[[site.route]]
prefix = "/${LWANGO_NONE}/${LWANGO_NEITHER}"
`)
	f.Include("b.conf", "[[site]]\nhost = \"${LWANGO_NONE}\"\ngrace = \"1s\"\n[[listener]]\n"+
		"address = \"${LWANGO_NONE}\"\n")
	var c config
	f.Root().Decode(&c)
	if c.KeepAlive.String() != "1s" || c.Handoff != "channel" || c.Threads != 0 {
		t.Errorf("%v %q %d", c.KeepAlive, c.Handoff, c.Threads)
	}
	want := []string{`a ${LWANGO_A}"` + "\nthreads = 9 $b ${1} ${} ${LWANGO-A} ${",
		"${LWANGO_A} $${LWANGO_A}", "d:-ef1s"}
	if got := c.Headers["x"]; !slices.Equal(got, want) || c.Headers["${LWANGO_A}"] == nil {
		t.Errorf("%q, want %q", c.Headers, want)
	}
	if got := c.Sites[0].Hosts[0]; got != "1s.1s" {
		t.Error(got)
	}
	const errs = `main:9: site.route.prefix: the environment has no variable LWANGO_NONE
b.conf:2: site.host: the environment has no variable LWANGO_NONE
b.conf:3: site.grace: unknown key (known here: host, route)
b.conf:5: listener.address: the environment has no variable LWANGO_NONE`
	if got := f.Err(); got == nil || got.Error() != errs {
		t.Errorf("got:\n%v\nwant:\n%s", got, errs)
	}
}

// TestNoReference: what looks like a reference and is none is refused, whether it closes or not.
func TestNoReference(t *testing.T) {
	for _, text := range []string{"${}", "${9}", "${A-x}", "${A:=x}", "${ A }", "${a.b}", "x${",
		"${A:-${B}}", "${file:}", "${file:a", "${{x}}"} {
		f := settings.Parse("t.conf", ".", "handoff = '"+text+"'\n")
		if err := f.Err(); err == nil || !strings.HasPrefix(err.Error(), "t.conf:1: handoff: ${") ||
			!strings.Contains(err.Error(),
				" is no reference: expected ${NAME}, ${NAME:-DEFAULT} or ${file:PATH}; for the text itself "+
					"write $${") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
