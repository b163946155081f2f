package convert

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxText  = 8 << 20 // of all files together, in bytes
	maxFiles = 2000    // that are included, a file that is included twice counted twice
	maxDepth = 16      // of files that include each other

	maxDirectives = 200_000
	maxLocations  = 2000 // of a server
)

// reader reads a configuration with all that it includes.
type reader struct {
	dir   string // where relative names begin
	text  int
	files int
	seq   int
	open  []string // the files that are being read, the outermost first

	missing []*directive // an include whose file is not there
}

// confDir returns the folder in which relative names of a file begin: its own, or the next one
// above it that has an nginx.conf, since a file of sites-available is included by that one.
func confDir(file string) string {
	own := filepath.Dir(file)
	for dir, i := own, 0; i < 3; dir, i = filepath.Dir(dir), i+1 {
		if _, err := os.Stat(filepath.Join(dir, "nginx.conf")); err == nil {
			return dir
		}
	}
	return own
}

// read returns the directives of a file, with those of included files in the place of each include.
func (r *reader) read(file string) ([]*directive, error) {
	if slices.Contains(r.open, file) {
		return nil, fmt.Errorf("%s includes itself: %s", file,
			strings.Join(append(r.open, file), " > "))
	}
	if len(r.open) >= maxDepth {
		return nil, fmt.Errorf("%s: more than %d files include each other", file, maxDepth)
	}
	if r.files++; r.files > maxFiles {
		return nil, fmt.Errorf("%s: more than %d files are included", file, maxFiles)
	}
	text, err := readText(file, maxText-r.text)
	if err != nil {
		return nil, err
	}
	r.text += len(text)
	shown := file
	if rel, err := filepath.Rel(r.dir, file); err == nil && filepath.IsLocal(rel) {
		shown = rel
	}
	all, err := parse(shown, text)
	if err != nil {
		return nil, err
	}
	r.open = append(r.open, file)
	all, err = r.splice(all)
	r.open = r.open[:len(r.open)-1]
	return all, err
}

func readText(file string, most int) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if i, err := f.Stat(); err != nil || !i.Mode().IsRegular() {
		return "", fmt.Errorf("%s: no regular file", file)
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return "", err
	}
	if len(text) > most {
		return "", fmt.Errorf("%s: the configuration has more than %d MiB", file, maxText>>20)
	}
	return string(text), nil
}

// splice puts included directives in the place of each include.
func (r *reader) splice(all []*directive) (out []*directive, err error) {
	for _, d := range all {
		if r.seq++; r.seq > maxDirectives {
			return nil, fmt.Errorf("%s:%d: there are more than %d directives", d.file, d.line,
				maxDirectives)
		}
		d.seq = r.seq
		switch {
		case d.name == "include" && len(d.args) == 1:
			included, err := r.include(d)
			if err != nil {
				return nil, err
			}
			out = append(out, included...)
		case d.braces:
			if d.block, err = r.splice(d.block); err != nil {
				return nil, err
			}
			out = append(out, d)
		default:
			out = append(out, d)
		}
	}
	return out, nil
}

// standard are files that come with nginx. Their parameters and types are those that the server has
// by itself, so they need not be there.
var standard = []string{"mime.types", "fastcgi_params", "fastcgi.conf", "uwsgi_params",
	"scgi_params", "proxy_params", "fastcgi-php.conf"}

func (r *reader) include(d *directive) ([]*directive, error) {
	pattern := d.arg(0)
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(r.dir, pattern)
	}
	if base := filepath.Base(pattern); slices.Contains(standard, base) {
		d.done = true
		return []*directive{d}, nil
	}
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %s: %w", d.file, d.line, d.text(), err)
	}
	if len(names) == 0 && !strings.ContainsAny(pattern, "*?[") {
		r.missing = append(r.missing, d)
		return []*directive{d}, nil
	}
	var all []*directive
	for _, name := range names {
		included, err := r.read(name)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", d.file, d.line, err)
		}
		all = append(all, included...)
	}
	return all, nil
}

// checkLocations refuses a server with very many locations, each of which is compared with all
// others.
func checkLocations(all []*directive) error {
	for _, d := range all {
		if d.name == "http" {
			if err := checkLocations(d.block); err != nil {
				return err
			}
		}
		if d.name == "server" && countLocations(d.block) > maxLocations {
			return fmt.Errorf("%s:%d: a server has more than %d locations", d.file, d.line,
				maxLocations)
		}
	}
	return nil
}

func countLocations(all []*directive) (n int) {
	for _, d := range all {
		if d.name == "location" {
			n += 1 + countLocations(d.block)
		}
	}
	return n
}
