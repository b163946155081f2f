package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lwango/lwango/internal/confpath"
	"github.com/lwango/lwango/internal/server/settings"
)

// include reads the files that the key include names, in the order of the key, and of their names
// where a pattern matches several. name is the configuration as messages show it, file its path.
//
// A name without wildcards must be there. A pattern matches no file whose name begins with a dot,
// unless it begins so itself, and never the configuration; it may match nothing. What it matches and
// is no regular file is left out. A file is read once.
func include(f *settings.File, name, file string) {
	var keys struct {
		Table   settings.Table `toml:",table"`
		Include []string       `toml:"include"`
		Rest    settings.Table `toml:",rest"`
	}
	if f.Broken() || !f.Root().Decode(&keys) {
		return
	}
	refuse := func(err error) { keys.Table.Errorf("include", "%v", err) }
	read := []string{file}
	for _, pattern := range keys.Include {
		paths, err := matching(confpath.Join(filepath.Dir(file), pattern))
		if err != nil {
			refuse(err)
		}
		for _, path := range paths {
			if slices.Contains(read, path) {
				continue
			}
			read = append(read, path)
			text, err := os.ReadFile(path)
			if err != nil {
				refuse(err)
				continue
			}
			f.Include(shownAs(path, name, file), string(text))
		}
	}
}

// matching lists the files that a name or a pattern stands for.
func matching(pattern string) (paths []string, err error) {
	if !strings.ContainsAny(pattern, `*?[\`) {
		return []string{pattern}, nil
	}
	all, err := filepath.Glob(pattern)
	if err != nil {
		return nil, errors.New(pattern + ": " + err.Error())
	}
	hidden := strings.HasPrefix(filepath.Base(pattern), ".")
	for _, path := range all {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) { // a link that leads nowhere, or removed this moment
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() && (hidden || !strings.HasPrefix(filepath.Base(path), ".")) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// shownAs names an included file as the configuration itself is named: by a path of the working
// directory if that is one.
func shownAs(path, name, file string) string {
	if below, err := filepath.Rel(filepath.Dir(file), path); err == nil && !filepath.IsAbs(name) {
		return filepath.Join(filepath.Dir(name), below)
	}
	return path
}
