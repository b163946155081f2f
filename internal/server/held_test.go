package server_test

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
)

// TestHeldDescriptors: connections leave room for the files that routes keep open.
func TestHeldDescriptors(t *testing.T) {
	const routes = `
[[site]]
[[site.route]]
prefix = "/a"
module = "serve_files"
path = "."
open_files = 1000
[[site.route]]
prefix = "/b"
module = "serve_files"
path = "."
open_files = 234
[[site.route]]
prefix = "/c"
module = "serve_files"
path = "."
open_files = 0
`
	const scripts = `
[[site]]
[[site.route]]
prefix = "/"
module = "fastcgi"
address = "127.0.0.1:9"
script_path = "."
try_files = `
	const pages = `
[[site]]
error_pages = { 404 = "404.html", 403 = "403.html", 500 = "/500.html" }
[[site.route]]
prefix = "/"
module = "serve_files"
path = "."
open_files = 7
error_pages = { 404 = "404.html" }
`
	for text, want := range map[string][2]int{
		"": {0, 0}, routes: {1234, 0}, scripts + `"off"`: {0, 0}, scripts + `"404"`: {256, 0},
		pages: {7, 3},
	} {
		c := must.Get(source().Parse(t.TempDir()+"/t.conf", text))(t)
		var got [2]int
		if got[0], got[1] = c.Held, c.HeldByLoop; got != want {
			t.Errorf("%q: %d descriptors, want %d", text, got, want)
		}
	}
	if _, err := source().Parse(t.TempDir()+"/t.conf", routes+"[[site.route]]\nprefix = \"/d\"\n"+
		"module = \"serve_files\"\npath = \".\"\nopen_files = -1\n"); err == nil {
		t.Error("a negative open_files is accepted")
	}
}

// TestTooManyConnections: the warning about max_connections shows what the descriptor limit is used
// for, so that the operator sees why there is room for fewer.
func TestTooManyConnections(t *testing.T) {
	log := new(logtext.Buffer)
	s := source()
	s.Logger = logtext.Logger(t, log)
	serve(t, s, "max_connections = 100000000\n"+
		route("prefix = \"/\"\nmodule = \"serve_files\"\npath = \".\"\nopen_files = 1000\n"))
	found := regexp.MustCompile(`max_connections=100000000 descriptor_limit=(\d+) reserved=(\d+) ` +
		`of_these_by_routes=1000 left=(\d+)`).FindStringSubmatch(log.String())
	if found == nil {
		t.Fatal(log)
	}
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(found[i+1])
	}
	if n[1] <= 1000 || n[2] != max(n[0]-n[1], 0) {
		t.Error(n)
	}
}

// TestRootAlone: with -r the sites of the file serve nothing, so they hold nothing and do nothing.
func TestRootAlone(t *testing.T) {
	s := source()
	s.Root = t.TempDir()
	text := ""
	held := func() (n [2]int) {
		t.Helper()
		c := must.Get(s.Parse(t.TempDir()+"/t.conf", text))(t)
		if n := len(c.Background); n != 0 {
			t.Errorf("%q: %d functions beside the requests", text, n)
		}
		n[0], n[1] = c.Held, c.HeldByLoop
		return n
	}
	want := held()
	text = "[[site]]\nerror_pages = { 404 = \"404.html\" }\n" +
		"[[site.route]]\nprefix = \"/\"\nmodule = \"serve_files\"\npath = \".\"\n" +
		"open_files = 1000\n[[site.route]]\nprefix = \"/a\"\nmodule = \"proxy\"\n" +
		"address = \"127.0.0.1:9\"\nhealth = { path = \"/up\" }\n"
	if got := held(); got != want {
		t.Errorf("%d descriptors, want %d", got, want)
	}
}
