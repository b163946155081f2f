package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/base/settings"
)

// include reads the files that the key include names, in the order of the key, and of their names
// where a pattern matches several. name is the configuration as messages show it, file its path.
//
// A name without wildcards must exist. A pattern matches no file whose name begins with a dot,
// unless it begins with one itself, and never the configuration; it may match nothing. A match that
// is no regular file is left out, but a dangling link is an error: the intended file is missing. A
// file is read once.
func include(f *settings.File, files files, name, file string) {
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
		paths, err := matching(files, filepath.Dir(file), pattern)
		if err != nil {
			refuse(err)
		}
		for _, path := range paths {
			if slices.Contains(read, path) {
				continue
			}
			read = append(read, path)
			text, err := files.included(path)
			if err != nil {
				refuse(err)
				continue
			}
			f.Include(displayName(path, name, file), string(text))
		}
	}
}

// matching lists the files of a name or a pattern, which is relative to dir. Only the last part of
// the path may have wildcards, so that a folder that cannot be read is an error.
func matching(files files, dir, pattern string) (paths []string, err error) {
	const wildcards = `*?[\`
	path := confpath.Join(dir, pattern)
	if !strings.ContainsAny(pattern, wildcards) {
		return []string{path}, nil
	}
	dir, base := filepath.Split(path)
	if strings.ContainsAny(filepath.Dir(pattern), wildcards) {
		return nil, fmt.Errorf("%s: only the last part of the path may have wildcards", pattern)
	}
	if _, err := filepath.Match(base, ""); err != nil {
		return nil, fmt.Errorf("%s: %w", pattern, err)
	}
	all, err := files.list(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range all {
		name := entry.Name()
		if ok, _ := filepath.Match(base, name); !ok || name[0] == '.' && base[0] != '.' {
			continue
		}
		info, err := files.stat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) && entry.Type()&fs.ModeSymlink == 0 { // removed this moment
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	return paths, nil
}

// displayName names an included file in the manner of the configuration itself: relative to the
// working directory if that is.
func displayName(path, name, file string) string {
	if below, err := filepath.Rel(filepath.Dir(file), path); err == nil && !filepath.IsAbs(name) {
		return filepath.Join(filepath.Dir(name), below)
	}
	return path
}

// files are where the files of a configuration are.
type files interface {
	first(path string) ([]byte, error) // of the configuration itself
	included(path string) ([]byte, error)
	list(dir string) ([]fs.DirEntry, error) // sorted by name
	stat(path string) (fs.FileInfo, error)
}

// osFiles are those of the operating system.
type osFiles struct{}

func (osFiles) first(path string) ([]byte, error) {
	return confpath.ReadOnce(path, confpath.MaxFile)
}
func (osFiles) included(path string) ([]byte, error) {
	return confpath.Read(path, confpath.MaxFile)
}
func (osFiles) list(dir string) ([]fs.DirEntry, error) { return os.ReadDir(dir) }
func (osFiles) stat(path string) (fs.FileInfo, error)  { return os.Stat(path) }

// fsFiles are those of a file system of the program. A path in it is relative, see fs.ValidPath.
type fsFiles struct{ fs.FS }

func (f fsFiles) first(path string) ([]byte, error) { return f.included(filepath.Clean(path)) }
func (f fsFiles) included(path string) ([]byte, error) {
	info, err := f.stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", path)
	}
	if err != nil {
		return nil, err
	}
	return fs.ReadFile(f.FS, path)
}
func (f fsFiles) list(dir string) ([]fs.DirEntry, error) {
	return fs.ReadDir(f.FS, filepath.Clean(dir))
}
func (f fsFiles) stat(path string) (fs.FileInfo, error) { return fs.Stat(f.FS, path) }
