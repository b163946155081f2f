package server_test

import "testing"

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
	for text, want := range map[string]int{
		"": 0, routes: 1234, scripts + `"off"`: 0, scripts + `"404"`: 256,
	} {
		c, err := source().Parse(t.TempDir()+"/t.conf", text)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Held(); got != want {
			t.Errorf("%q: %d descriptors, want %d", text, got, want)
		}
	}
	if _, err := source().Parse(t.TempDir()+"/t.conf", routes+"[[site.route]]\nprefix = \"/d\"\n"+
		"module = \"serve_files\"\npath = \".\"\nopen_files = -1\n"); err == nil {
		t.Error("a negative open_files is accepted")
	}
}
