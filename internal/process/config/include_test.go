package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/test/must"
)

// TestInclude: which files a configuration consists of, and how each of them is named in messages.
func TestInclude(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[1]") // which is no pattern
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Write(t, path, text)
	}
	const site = "[[site]]\nhost = \"%.test\"\n[[site.route]]\nprefix = \"/\"\nmodule = " +
		"\"response\"\nbody = \"%\"\n"
	for _, name := range []string{"a", "b", "c"} {
		write("conf.d/"+name+".conf", strings.ReplaceAll(site, "%", name))
	}
	write("conf.d/.hidden.conf", "threads = none")
	write("conf.d/a.conf.orig", "threads = none")
	write("conf.d/sub.conf/x", "")
	write("bad/z.conf", "[[site]]\nhost = 1\n")
	write("bad/y.conf", "thread = 1\n")
	write("broken.conf", "threads = \n")
	write("links/b.conf", "threads = 1\n")
	write("nested.conf", "include = \"none.conf\"\n")
	write("twice.conf", "threads = 1\n")
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "pipe.conf"), 0o600))
	must.Do(t, os.Symlink("nowhere", filepath.Join(dir, "links/a.conf")))
	main := filepath.Join(dir, "lwango.conf")
	for _, row := range []struct {
		text string
		want string // the error, where DIR is the folder, or the hosts of the sites
	}{
		{`include = "conf.d/*.conf"`, "a.test b.test c.test"},
		{`include = ["conf.d/b.conf", "conf.d/*.conf", "conf.d/a.conf"]`, "b.test a.test c.test"},
		{`include = ["*.conf.none", "nowhere/*"]`, ""},
		{`include = "*/a.conf"`,
			"DIR/lwango.conf:1: include: */a.conf: only the last part of the path may have wildcards"},
		{`include = "lwango.conf/*"`,
			"DIR/lwango.conf:1: include: open DIR/lwango.conf/: not a directory"},
		{`include = "lwango.con[f]"`, ""}, // not itself
		{"include = \"conf.d/?.conf\"\n[[site]]\nhost = \"d.test\"", "d.test a.test b.test c.test"},
		{`include = "links/*"`,
			"DIR/lwango.conf:1: include: stat DIR/links/a.conf: no such file or directory"},
		{`include = "none.conf"`,
			"DIR/lwango.conf:1: include: open DIR/none.conf: no such file or directory"},
		{`include = "conf.d"`, "DIR/lwango.conf:1: include: DIR/conf.d: not a regular file"},
		{`include = "pipe.conf"`, "DIR/lwango.conf:1: include: DIR/pipe.conf: not a regular file"},
		{`include = "[a"`, "DIR/lwango.conf:1: include: [a: syntax error in pattern"},
		{`include = 1`,
			"DIR/lwango.conf:1: include: expected a string or a list of them, found the integer 1"},
		{`include = "bad/*"`, "DIR/bad/y.conf:1: thread: unknown key (did you mean threads?)\n" +
			"DIR/bad/z.conf:2: site.host: expected a string or a list of them, found the integer 1"},
		{`include = "broken.conf"`, "DIR/broken.conf:1: expected value but found '\\n' instead"},
		{`include = "nested.conf"`,
			"DIR/nested.conf:1: include: is set already, to another value (DIR/lwango.conf, line 1)"},
		{"include = \"twice.conf\"\nthreads = 2",
			"DIR/twice.conf:1: threads: is set already, to another value (DIR/lwango.conf, line 2)"},
		{"include = \"conf.d/*\"", "DIR/conf.d/a.conf.orig:1: expected value but found \"none\" instead"},
	} {
		write("lwango.conf", strings.ReplaceAll(row.text, "DIR", dir)+"\n")
		c, err := config.Source{File: main, Modules: config.Builtin()}.Load()
		var got string
		if err != nil {
			got = strings.ReplaceAll(err.Error(), dir, "DIR")
		} else {
			var hosts []string
			for _, s := range c.Sites {
				hosts = append(hosts, s.Hosts...)
			}
			got = strings.Join(hosts, " ")
		}
		if got != row.want {
			t.Errorf("%s: got\n%s\nwant\n%s", row.text, got, row.want)
		}
	}
}
