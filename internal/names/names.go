// Package names tells which names of files are not for the public, whichever module serves the
// folder.
package names

import "github.com/lwango/lwango/internal/ascii"

// Hidden reports whether a cleaned path, which begins with a slash, has a segment that begins with
// a dot, be it a file or a folder on the way to one (.git, .env, .htpasswd). /.well-known/ is the
// one folder of that kind that is meant to be served (RFC 8615), at the top only; what lies hidden
// within it stays hidden.
func Hidden[T string | []byte](path T) bool {
	for i := 0; i+1 < len(path); i++ {
		if path[i] == '/' && path[i+1] == '.' && (i > 0 || !hasWellKnown(path)) {
			return true
		}
	}
	return false
}

func hasWellKnown[T string | []byte](path T) bool {
	const folder = "/.well-known"
	return len(path) >= len(folder) && string(path[:len(folder)]) == folder &&
		(len(path) == len(folder) || path[len(folder)] == '/')
}

// sources are the endings of files that hold a script's source for somebody, whatever the
// configuration calls a script. Those with a digit, .php3 to .php8, are among them: see Source.
var sources = []string{".php", ".phtml", ".phps", ".phar", ".inc"}

// Source reports whether the last segment of a path may be the name of a script, whose source is
// for nobody. So are the copies that editors and careful people leave: wherever an ending is not
// followed by a letter, the name is one (a.php~, #a.php#, a.php.save.1, a.php_old), while a.phpinfo
// is not. The case of letters, ASCII's, does not matter, as there are file systems that do not tell
// them apart.
func Source[T string | []byte](path T, endings []string) bool {
	for i := len(path) - 1; i >= 0 && path[i] != '/'; i-- {
		if path[i] == '.' && endsAt(path[i:], sources) || endsAt(path[i:], endings) {
			return true
		}
	}
	return false
}

// endsAt reports whether name begins with one of the endings, and no letter behind it.
func endsAt[T string | []byte](name T, endings []string) bool {
	for _, e := range endings {
		if e != "" && ascii.HasPrefixFold(name, e) && (len(name) == len(e) || !letter(name[len(e)])) {
			return true
		}
	}
	return false
}

func letter(c byte) bool { return 'a' <= ascii.Lower(c) && ascii.Lower(c) <= 'z' }
