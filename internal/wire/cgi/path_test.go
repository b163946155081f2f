package cgi_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/cgi"
	"github.com/lwango/lwango/internal/wire/http1"
)

func TestSplit(t *testing.T) {
	php := []string{".php"}
	for _, tt := range []struct {
		path, script, info string
		ok                 bool
	}{
		{"/a.php", "/a.php", "", true},
		{"/a.php/", "/a.php", "/", true},
		{"/a.php/b/c", "/a.php", "/b/c", true},
		{"/d/a.php/b.php/c", "/d/a.php", "/b.php/c", true}, // the first
		{"/a.php.php", "/a.php.php", "", true},
		{"/a.php/..b", "/a.php", "/..b", true},
		{"/ü.php/é", "/ü.php", "/é", true},
		// whether it exists is another question
		{"/uploads/evil.jpg/x.php", "/uploads/evil.jpg/x.php", "", true},
		{"/", "/", "", false},
		{"", "", "", false},
		{"/a", "/a", "", false},
		{"/a.php.bak", "/a.php.bak", "", false},
		{"/a.phpx/b", "/a.phpx/b", "", false},
		{"/a.php.", "/a.php.", "", false},
		{"/a.php ", "/a.php ", "", false},
		{"/A.PHP", "/A.PHP", "", false},
		{"/a.PhP/x", "/a.PhP/x", "", false},
		{"/aphp", "/aphp", "", false},
		{"/php", "/php", "", false},
		{"/.php", "/.php", "", false}, // nothing but the extension
		{"/.php/b.php/c", "/.php/b.php", "/c", true},
		{"/shell\uff0ephp", "/shell\uff0ephp", "", false}, // a full-width dot
		// letters that fold to those of ASCII, or grow when folded
		{"/a.\u017fhp", "/a.\u017fhp", "", false},
		{"/\u023a\u023a\u023a.php/x", "/\u023a\u023a\u023a.php", "/x", true},
		{"/\u0130.PHP/x.php", "/\u0130.PHP/x.php", "", true},
		{"/a.ph\u1d18/x", "/a.ph\u1d18/x", "", false},
		{"/\xff.php/\xff", "/\xff.php", "/\xff", true}, // no UTF-8 at all
	} {
		script, info, ok := cgi.Split(tt.path, php)
		if script != tt.script || info != tt.info || ok != tt.ok {
			t.Errorf("%q: %q, %q, %v", tt.path, script, info, ok)
		}
	}
	for _, tt := range []struct {
		path, script string
		ok           bool
	}{
		{"/a.phtml/x", "/a.phtml", true},
		{"/fpm-status", "/fpm-status", true}, // no file, and no dot
		{"/my-fpm-status/x.php", "/my-fpm-status", true},
		{"/fpm-statu", "/fpm-statu", false},
		{"/a.html", "/a.html", false}, // an empty extension is none
	} {
		if script, _, ok := cgi.Split(tt.path, []string{"", ".php", ".phtml",
			"fpm-status"}); script != tt.script ||
			ok != tt.ok {
			t.Errorf("%q: %q, %v", tt.path, script, ok)
		}
	}
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{"/a.php/b", "/a.php.bak", "//.php/", "a.php", "/a/b.php",
		"/Ⱥ.php/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		script, info, ok := cgi.Split(path, []string{".php"})
		if script+info != path {
			t.Fatalf("%q became %q and %q", path, script, info)
		}
		if !ok {
			if info != "" {
				t.Fatal("path info without a script")
			}
			for i, s := range strings.Split(path, "/") {
				if i > 0 && path[0] == '/' && strings.HasSuffix(s, ".php") && s != ".php" {
					t.Fatalf("%q: %q was not found", path, s)
				}
			}
			return
		}
		if !strings.HasSuffix(script, ".php") || strings.HasSuffix(script, "/.php") ||
			info != "" && info[0] != '/' {
			t.Fatalf("%q became %q and %q", path, script, info)
		}
		if before := script[:strings.LastIndexByte(script, '/')]; before != "" {
			if _, _, ok := cgi.Split(before, []string{".php"}); ok {
				t.Fatalf("%q: %q is not the first", path, script)
			}
		}
	})
}

// A tree is a folder by names: what ends with a slash is a folder, with "!" a device.
type tree []string

var errStat = errors.New("cannot be known")

func (tr tree) Stat(name string) (cgi.Entry, error) {
	if name == "" || name[0] == '/' || strings.HasSuffix(name, "/") ||
		strings.Contains("/"+name+"/", "/../") {
		return 0, errors.New("no name to ask for: " + name)
	}
	for _, have := range tr {
		switch have {
		case name:
			return cgi.Regular, nil
		case name + "/":
			return cgi.Folder, nil
		case name + "!":
			return cgi.Special, nil
		case name + "?":
			return 0, errStat
		}
	}
	return cgi.Absent, nil
}

var site = tree{
	"index.php", "server.php", "style.css", "SERVER.PHP", "copy.php.", "copy.php ", ".php",
	"notes.php.bak", "fifo!",
	"fifo.php!",
	"wp-admin/", "wp-admin/index.php", "uploads/", "uploads/evil.jpg", "static/",
	"static/index.html", "css/",
	"css/a.css",
	"dir.php/", "dir.php/readme.txt", "locked.php?", "locked?", "locked-index/",
	"locked-index/index.php?",
	"both/", "both/index.php", "both/index.html",
}

func say(tt cgi.Target) string {
	return map[cgi.Kind]string{
		cgi.NotFound: "not found", cgi.BadRequest: "bad", cgi.Script: "script",
		cgi.Static:   "static",
		cgi.Redirect: "redirect",
	}[tt.Kind] + " " + tt.Name + tail(tt.Info)
}

func tail(info string) string {
	if info == "" {
		return ""
	}
	return " + " + info
}

func TestResolve(t *testing.T) {
	for _, tt := range []struct{ path, off, found, front string }{
		// Scripts are the same in every mode.
		{"/server.php", "script /server.php", "", ""},
		{"/server.php/a/b", "script /server.php + /a/b", "", ""},
		{"/server.php/", "script /server.php + /", "", ""},
		{"/wp-admin/index.php", "script /wp-admin/index.php", "", ""},
		// One that is not there is not asked for, whatever PHP would make of its name.
		{"/missing.php", "not found ", "", ""},
		{"/uploads/evil.jpg/x.php", "not found ", "", ""},
		{"/server.php.php", "not found ", "", ""},
		{"/fifo.php", "not found ", "", ""},
		{"/dir.php", "not found ", "", ""},
		{"/dir.php/readme.txt", "not found ", "", ""},
		// Controls, and what http1.CleanPath would not have left.
		{"/a\x00.php", "bad ", "", ""},
		{"/server.php/\n/x", "bad ", "", ""},
		{"/server.php/\x7f", "bad ", "", ""},
		{"/\r", "bad ", "", ""},
		{"/../x.php", "bad ", "", ""},
		{"/a/..", "bad ", "", ""},
		{"/./a", "bad ", "", ""},
		{"//server.php", "bad ", "", ""},
		{"", "bad ", "", ""},
		{"a.php", "bad ", "", ""},
		// Folders.
		{"/", "script /index.php", "", ""},
		{"/wp-admin/", "script /wp-admin/index.php", "", ""},
		{"/wp-admin", "redirect ", "", ""},
		{"/static/", "not found ", "static /static/index.html", "static /static/index.html"},
		{"/static", "not found ", "redirect ", "redirect "},
		{"/both/", "script /both/index.php", "", ""}, // in the order of the configuration
		{"/css/", "not found ", "not found ", "script /index.php"},
		{"/css", "not found ", "not found ", "script /index.php"},
		{"/gone/", "not found ", "not found ", "script /index.php"},
		{"/style.css/", "not found ", "not found ", "script /index.php"},
		// Files.
		{"/style.css", "not found ", "static /style.css", "static /style.css"},
		{"/uploads/evil.jpg", "not found ", "static /uploads/evil.jpg", "static /uploads/evil.jpg"},
		{"/uploads/evil.jpg/x", "not found ", "not found ", "script /index.php"},
		{"/notes.php.bak", "not found ", "not found ", "not found "},
		{"/fifo", "not found ", "not found ", "script /index.php"},
		// A script's source, by whatever name, is no file.
		{"/SERVER.PHP", "not found ", "", ""},
		{"/copy.php.", "not found ", "", ""},
		{"/copy.php ", "not found ", "", ""},
		{"/.php", "not found ", "", ""},
		// What is neither.
		{"/users/7", "not found ", "not found ", "script /index.php"},
		{"/Server.Php", "not found ", "not found ", "script /index.php"},
		{"/..a", "not found ", "not found ", "script /index.php"},
		{"/shell\uff0ephp", "not found ", "not found ", "script /index.php"},
	} {
		for i, want := range []string{tt.off, tt.found, tt.front} {
			if want == "" {
				want = tt.off
			}
			r := rules(cgi.Rules{Try: cgi.Try(i), Index: []string{"index.php", "index.html"}})
			got, err := r.Resolve(site, tt.path)
			if say(got) != want || err != nil {
				t.Errorf("%q in mode %d: %s, %v, want %s", tt.path, i, say(got), err, want)
			}
		}
	}
}

// rules is r with what a configuration has where it says nothing.
func rules(r cgi.Rules) cgi.Rules {
	if r.Extensions == nil {
		r.Extensions = []string{".php"}
	}
	if r.Index == nil {
		r.Index = []string{"index.php"}
	}
	if r.Front.Script == "" {
		r.Front.Script = "/index.php"
	}
	return r
}

// TestHidden: what is hidden, or lies in a folder that is, is neither run nor looked for an index;
// path info is no folder.
func TestHidden(t *testing.T) {
	for path, want := range map[string]string{
		"/.git/hook.php": "not found ", "/.x.php": "not found ",
		"/a/.svn/b/x.php/info": "not found ", "/.git/": "not found ",
		"/.git": "not found ", "/a/.b/": "not found ", "/.git/hook.php/": "not found ",
		"/x.php/.git/y":         "script /x.php + /.git/y",
		"/.well-known/x.php":    "script /.well-known/x.php",
		"/.well-known/.a/x.php": "not found ",
	} {
		r := rules(cgi.Rules{Try: cgi.TryNotFound, Unchecked: true})
		for _, r.FrontMissing = range []bool{false, true} {
			if got, err := r.Resolve(tree{}, path); say(got) != want || err != nil {
				t.Errorf("%q: %s, %v, want %s", path, say(got), err, want)
			}
		}
	}
}

// TestNoScripts: none is run, by whatever way, and none is sent.
func TestNoScripts(t *testing.T) {
	r := rules(cgi.Rules{Try: cgi.TryNotFound, Index: []string{"index.php", "index.html"},
		NoScripts: true})
	for path, want := range map[string]string{
		"/server.php": "not found ", "/server.php/a": "not found ", "/missing.php": "not found ",
		"/SERVER.PHP": "not found ",
		"/":           "not found ", "/wp-admin/": "not found ", "/wp-admin": "not found ",
		"/notes.php.bak": "not found ",
		"/both/":         "static /both/index.html", "/static": "redirect ",
		"/style.css": "static /style.css",
	} {
		if got, err := r.Resolve(site, path); say(got) != want || err != nil {
			t.Errorf("%q: %s, %v, want %s", path, say(got), err, want)
		}
	}
}

func TestResolveErrors(t *testing.T) {
	r := rules(cgi.Rules{Try: cgi.TryFront})
	for _, path := range []string{"/locked.php", "/locked", "/locked-index/", "/locked-index"} {
		if got, err := r.Resolve(site, path); err != errStat || got != (cgi.Target{}) {
			t.Errorf("%q: %v, %v", path, got, err)
		}
	}
}

func TestResolveRules(t *testing.T) {
	for _, tt := range []struct {
		name, path, want string
		rules            cgi.Rules
		fsys             cgi.FS
	}{
		{"a missing script is the front controller's, if asked for", "/missing.php/x",
			"script /index.php", cgi.Rules{Try: cgi.TryFront, FrontMissing: true}, site},
		{"but only with one", "/missing.php", "not found ",
			cgi.Rules{Try: cgi.TryNotFound, FrontMissing: true}, site},
		{"a front controller elsewhere", "/x", "script /server.php",
			cgi.Rules{Try: cgi.TryFront, Front: cgi.Front{Script: "/server.php"}}, site},
		{"that does not exist", "/x", "not found ",
			cgi.Rules{Try: cgi.TryFront, Front: cgi.Front{Script: "/app.php"}}, site},
		{"a folder without index", "/", "not found ", cgi.Rules{Index: []string{"main.php"}}, site},
		{"an index that is somebody's source", "/", "not found ",
			cgi.Rules{Try: cgi.TryNotFound, Index: []string{"SERVER.PHP"}}, site},
		{"other extensions", "/notes.php.bak/x", "script /notes.php.bak + /x",
			cgi.Rules{Extensions: []string{".php", ".bak"}}, site},

		// Scripts on another machine, and nothing of them here.
		{"unchecked script", "/a/b.php/c", "script /a/b.php + /c", cgi.Rules{Unchecked: true},
			tree{}},
		{"unchecked script beyond the root", "/../b.php", "bad ", cgi.Rules{Unchecked: true},
			tree{}},
		{"unchecked root", "/", "script /index.php", cgi.Rules{Unchecked: true}, tree{}},
		{"unchecked folder", "/a/", "script /a/index.php", cgi.Rules{Unchecked: true,
			Try: cgi.TryNotFound}, tree{}},
		{"unchecked other", "/a", "not found ", cgi.Rules{Unchecked: true, Try: cgi.TryNotFound},
			tree{}},
		{"unchecked front", "/a", "script /index.php", cgi.Rules{Unchecked: true,
			Try: cgi.TryFront}, tree{}},
		{"unchecked front, root", "/", "script /index.php",
			cgi.Rules{Unchecked: true, Try: cgi.TryFront}, tree{}},
		{"unchecked front, folder", "/a/", "script /index.php",
			cgi.Rules{Unchecked: true, Try: cgi.TryFront}, tree{}},
		{"unchecked front, file here", "/style.css", "static /style.css",
			cgi.Rules{Unchecked: true, Try: cgi.TryFront}, site},
		{"unchecked front, folder here without index", "/css", "script /index.php",
			cgi.Rules{Unchecked: true, Try: cgi.TryFront}, site},
		{"unchecked front, folder here with one", "/wp-admin", "redirect ",
			cgi.Rules{Unchecked: true, Try: cgi.TryFront}, site},
		{"FPM's own page", "/fpm-status", "script /fpm-status",
			cgi.Rules{Unchecked: true, Extensions: []string{"fpm-status"}, Try: cgi.TryFront},
			site},
	} {
		r := rules(tt.rules)
		if got, err := r.Resolve(tt.fsys, tt.path); say(got) != tt.want || err != nil {
			t.Errorf("%s: %q is %s, %v, want %s", tt.name, tt.path, say(got), err, tt.want)
		}
	}
}

// Whatever a client may send: nothing outside is asked for, and no script's source is a file.
func FuzzResolve(f *testing.F) {
	for _, s := range []string{"/server.php/x", "/%2e%2e/x.php", "/SERVER.PHP", "/static", "/css/",
		"/a%00.php", "/fifo"} {
		f.Add(s, uint8(2), false)
	}
	f.Fuzz(func(t *testing.T, raw string, mode uint8, unchecked bool) {
		path, err := http1.CleanPath(nil, []byte(raw))
		if err != nil {
			path = []byte(raw)
		}
		r := rules(cgi.Rules{Try: cgi.Try(mode % 3), Unchecked: unchecked,
			Index: []string{"index.php", "index.html"}})
		got, err2 := r.Resolve(site, string(path))
		if err2 != nil {
			if err2 != errStat {
				t.Fatal(err2)
			}
			return
		}
		if err == nil && got.Kind == cgi.BadRequest {
			t.Fatalf("%q is bad", path)
		}
		entry := cgi.Absent
		if got.Name != "" {
			entry, _ = site.Stat(got.Name[1:])
		}
		switch got.Kind {
		case cgi.Script:
			if entry != cgi.Regular && !unchecked || !strings.HasSuffix(got.Name, ".php") ||
				!strings.HasPrefix(string(path), got.Name) && got.Info != "" {
				t.Fatalf("%q: %s", path, say(got))
			}
		case cgi.Static:
			if entry != cgi.Regular ||
				strings.HasSuffix(strings.ToLower(strings.TrimRight(got.Name, ". ")), ".php") {
				t.Fatalf("%q: %s", path, say(got))
			}
		default:
			if got.Name != "" || got.Info != "" {
				t.Fatalf("%q: %s", path, say(got))
			}
		}
	})
}
