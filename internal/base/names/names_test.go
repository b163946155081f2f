package names_test

import (
	"testing"

	"github.com/lwango/lwango/internal/base/names"
)

func TestHidden(t *testing.T) {
	for path, want := range map[string]bool{
		"/": false, "": false, "/a": false, "/a.b": false, "/a/b.c/": false, "/a./b": false,
		"/.a": true, "/a/.b": true, "/.a/b": true, "/a/.b/c": true, "/..a": true,
		"/.well-known": false, "/.well-known/": false, "/.well-known/a": false, "/.well-known/.a": true,
		"/.well-knownx": true, "/.well-know": true, "/a/.well-known/b": true,
	} {
		if names.Hidden(path) != want || names.Hidden([]byte(path)) != want {
			t.Errorf("%q: %v", path, !want)
		}
	}
}

func TestSource(t *testing.T) {
	for path, want := range map[string]bool{
		"/a.php": true, "/a.PhP7": true, "/a.phtml": true, "/a.phar": true, "/a.phps": true,
		"/lib/a.inc": true,
		"/a.php~":    true, "/a.py.bak": true, "/a.php.ORIG. ": true, "/.a.php.swp": true,
		"/a.py.bak~": true, "/.php": true,
		"/a.php.txt": true, "/config.php.save.1": true, "/#config.php#": true, "/a.php_old": true,
		"/a.php-1": true,
		"/a.php 2": true, "/a.php\u00e9": true, "/a (1).php": true, "/a.py": true, "/a.phpx.php": true,
		"/x/fpm-status":   true,
		"/FPM-STATUS.txt": true, "a.php": true,

		"/~": false, "/a.bak": false, "/a.txt~": false, "/php": false, "/a.zinc": false,
		"/a.include": false,
		"/a.phpinfo": false, "/a.pyc": false, "/a.old": false, "/": false, "": false, "/a.php/": false,
		"/a.php.d/b.txt": false, "/xphp": false, "/a.ph": false, "/fpm-statuses": false,
	} {
		endings := []string{".py", "fpm-status", ""}
		if names.Source(path, endings) != want || names.Source([]byte(path), endings) != want {
			t.Errorf("%q: %v", path, !want)
		}
	}
}
