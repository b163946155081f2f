package server_test

import (
	"testing"

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
	// Each route and each page has a folder, beside that of the configuration that is loaded next.
	for text, want := range map[string][3]int{
		"": {0, 0, 0}, routes: {6, 1234, 0}, scripts + `"off"`: {0, 0, 0}, scripts + `"404"`: {2, 256, 0},
		pages: {8, 7, 3},
	} {
		c := must.Get(source().Parse(t.TempDir()+"/t.conf", text))(t)
		if got := [3]int{c.Descriptors, c.OpenFiles, c.OpenFilesPerLoop}; got != want {
			t.Errorf("%q: %d descriptors, want %d", text, got, want)
		}
	}
	if _, err := source().Parse(t.TempDir()+"/t.conf", routes+"[[site.route]]\nprefix = \"/d\"\n"+
		"module = \"serve_files\"\npath = \".\"\nopen_files = -1\n"); err == nil {
		t.Error("a negative open_files is accepted")
	}
}

// TestRootAlone: with -r the sites of the file serve nothing, so they hold nothing and do nothing.
func TestRootAlone(t *testing.T) {
	s := source()
	s.Root = t.TempDir()
	text := ""
	held := func() [3]int {
		t.Helper()
		c := must.Get(s.Parse(t.TempDir()+"/t.conf", text))(t)
		if n := len(c.Background); n != 0 {
			t.Errorf("%q: %d functions beside the requests", text, n)
		}
		return [3]int{c.Descriptors, c.OpenFiles, c.OpenFilesPerLoop}
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
