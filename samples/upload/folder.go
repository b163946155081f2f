package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// folder is where files go. A file has no name there until it is complete (open(2), O_TMPFILE):
// what a client leaves half sent is gone with its descriptor, even if the program is killed.
type folder struct {
	path string
	dir  *os.File
}

func openFolder(path string) (*folder, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	to := &folder{path, dir}
	file, err := to.create() // so that a file system that cannot do it stops the start
	if err != nil {
		dir.Close()
		return nil, err
	}
	file.Close()
	return to, nil
}

// create makes a file without a name.
func (to *folder) create() (*os.File, error) {
	fd, err := unix.Openat(int(to.dir.Fd()), ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, &fs.PathError{Op: "create a file in", Path: to.path, Err: err}
	}
	return os.NewFile(uintptr(fd), to.path), nil
}

// name gives a file its name, or one with a number if there is a file of that name, and returns it.
func (to *folder) name(file *os.File, name string) (string, error) {
	ext := filepath.Ext(name)
	base := strings.TrimSuffix(name, ext)
	source := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	for n := 2; ; n++ {
		err := unix.Linkat(unix.AT_FDCWD, source, int(to.dir.Fd()), name, unix.AT_SYMLINK_FOLLOW)
		if err == nil {
			return name, nil
		}
		if !errors.Is(err, fs.ErrExist) || n > 9999 {
			return "", &fs.PathError{Op: "name", Path: filepath.Join(to.path, name), Err: err}
		}
		name = fmt.Sprintf("%s (%d)%s", base, n, ext)
	}
}

func (to *folder) remove(name string) { _ = unix.Unlinkat(int(to.dir.Fd()), name, 0) }

// safeName makes a name of what a client calls its file: the last part of the path, in letters,
// digits and a few other characters, not hidden, and short enough to have a number added.
func safeName(s string) string {
	s = s[strings.LastIndexAny(s, `/\`)+1:]
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) &&
			!strings.ContainsRune(" ._-()+,", r) {
			return '_'
		}
		return r
	}, s)
	const most = 200 // bytes, of the 255 that a name can have
	if len(s) > most {
		ext := filepath.Ext(s)
		if len(ext) > 20 {
			ext = ""
		}
		n := most - len(ext)
		for !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n] + ext
	}
	if s = strings.Trim(s, " ."); s == "" {
		return "file"
	}
	return s
}
