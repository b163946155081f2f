package fastcgi_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/test/must"
)

func link(t *testing.T, to, name string) {
	t.Helper()
	must.Do(t, os.Symlink(to, name+".new"))
	must.Do(t, os.Rename(name+".new", name))
}

// places is an application that answers with the folders it is told.
func places(t *testing.T) *fcgitest.Upstream {
	return fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		r := c.Read()
		c.Reply(okHead + r.Get("SCRIPT_FILENAME") + " " + r.Get("DOCUMENT_ROOT"))
	})
}

// TestFollowSymlinks: links lead out of the folder only with follow_symlinks.
func TestFollowSymlinks(t *testing.T) {
	up := places(t)
	outside := t.TempDir()
	write(t, outside, map[string]string{"x.php": "", "a.txt": "text", "sub/index.php": "",
		"b.inc.php": "source"})
	for _, follow := range []bool{false, true} {
		p := serveFiles(t, "/", []string{up.Address}, nil,
			func(s *fastcgi.Settings) { s.FollowSymlinks = follow })
		link(t, outside+"/x.php", p.dir+"/x.php")
		link(t, outside+"/a.txt", p.dir+"/a.txt")
		link(t, outside, p.dir+"/folder")
		link(t, outside+"/b.inc.php", p.dir+"/b.txt.php.")
		link(t, "nowhere", p.dir+"/broken.php")
		link(t, "loop.php", p.dir+"/loop.php")
		for path, want := range map[string]string{
			"/x.php":        p.dir + "/x.php " + p.dir,
			"/folder/x.php": p.dir + "/folder/x.php " + p.dir,
			"/folder/sub/":  p.dir + "/folder/sub/index.php " + p.dir,
			"/a.txt":        "text",
			"/folder/a.txt": "text",
		} {
			g := p.get(path)
			if ok := g.status == 200 && g.body == want; ok != follow || !follow && g.status != 404 {
				t.Errorf("follow %v, %s: %d %q", follow, path, g.status, g.body)
			}
		}
		for _, path := range []string{"/broken.php", "/loop.php", "/b.txt.php.", "/folder/../x",
			"/folder"} {
			if g := p.get(path); g.status != 404 {
				t.Errorf("follow %v, %s: %d %q", follow, path, g.status, g.body)
			}
		}
	}
}

// TestReleases: with resolve_root, a link to another release takes effect at once, for scripts and
// files, and the application is told the release's own path.
func TestReleases(t *testing.T) {
	up := places(t)
	dir := t.TempDir()
	real := must.Get(filepath.EvalSymlinks(dir))(t)
	for _, release := range []string{"1", "2"} {
		write(t, dir, map[string]string{release + "/public/x.php": "", release +
			"/public/a.txt": "text " + release, release + "/public/" + release + ".php": ""})
	}
	current := filepath.Join(dir, "current")
	link(t, "1", current)
	set := func(resolve bool) func(*fastcgi.Settings) {
		return func(s *fastcgi.Settings) {
			s.ScriptPath, s.ResolveRoot = current+"/public", resolve
		}
	}
	resolved := serveFiles(t, "/", []string{up.Address}, nil, set(true))
	plain := serveFiles(t, "/", []string{up.Address}, nil, set(false))
	check := func(release, other string) {
		t.Helper()
		root := real + "/" + release + "/public"
		if g := resolved.get("/x.php"); g.body != root+"/x.php "+root {
			t.Error(g.status, g.body)
		}
		if g := resolved.get("/a.txt"); g.body != "text "+release {
			t.Error(g.status, g.body)
		}
		if g := resolved.get("/" + other + ".php"); g.status != 404 {
			t.Error(g.status, g.body)
		}
		root = current + "/public"
		if g := plain.get("/x.php"); g.body != root+"/x.php "+root {
			t.Error(g.status, g.body)
		}
	}
	check("1", "2")
	link(t, "2", current)
	check("2", "1")
	if g := plain.get("/a.txt"); g.body != "text 1" {
		t.Error("without resolve_root: ", g.body)
	}
	must.Do(t, os.Remove(current))
	check("2", "1")
	write(t, dir, map[string]string{"3/public": "a file"})
	link(t, "3", current)
	check("2", "1")
	link(t, "1", current)
	check("1", "2")
}
