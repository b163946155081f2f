// Package names finds files that no module may send, by their names.
package names

import "github.com/lwango/lwango/internal/base/ascii"

// Hidden reports whether a cleaned path, which begins with a slash, has a segment that begins with
// a dot, be it a file or a folder on the way to one (.git, .env, .htpasswd). /.well-known/, at the
// top, is the one such folder that is served (RFC 8615); hidden files within it stay hidden.
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

// sources are endings of scripts in every configuration. .php includes .php3 to .php8: see Source.
var sources = []string{".php", ".phtml", ".phps", ".phar", ".inc"}

// Source reports whether the last segment of a path may name a script, whose source must not be
// sent, or a copy of one that an editor or a user has made: any name with an ending that no letter
// follows counts (a.php~, #a.php#, a.php.save.1, a.php_old), while a.phpinfo does not. The case of
// ASCII letters does not matter, because some file systems do not tell it apart.
func Source[T string | []byte](path T, endings []string) bool {
	for i := len(path) - 1; i >= 0 && path[i] != '/'; i-- {
		if path[i] == '.' && endsAt(path[i:], sources) || endsAt(path[i:], endings) {
			return true
		}
	}
	return false
}

// endsAt reports whether name begins with one of the endings, and no letter follows.
func endsAt[T string | []byte](name T, endings []string) bool {
	for _, e := range endings {
		if e != "" && ascii.HasPrefixFold(name, e) &&
			(len(name) == len(e) || !letter(name[len(e)])) {
			return true
		}
	}
	return false
}

func letter(c byte) bool { return 'a' <= ascii.Lower(c) && ascii.Lower(c) <= 'z' }
