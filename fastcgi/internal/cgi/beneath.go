package cgi

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Beneath is the FS of a folder. A symbolic link that leads out of it is Absent. The kernel
// resolves each segment, so an attacker who renames files meanwhile gains nothing.
type Beneath struct{ Root *os.Root }

// Stat says what name stands for.
func (b Beneath) Stat(name string) (Entry, error) { return entry(b.Root.Stat(name)) }

// Following is the FS of a folder, an absolute path, out of which symbolic links may lead.
type Following struct{ Dir string }

// Stat says what name stands for.
func (f Following) Stat(name string) (Entry, error) { return entry(os.Stat(f.Dir + "/" + name)) }

func entry(info fs.FileInfo, err error) (Entry, error) {
	if err != nil {
		return Absent, unknown(err)
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return Regular, nil
	case mode.IsDir():
		return Folder, nil
	}
	return Special, nil
}

// unknown returns nil if err says that there is no such file, and err if it leaves that open.
func unknown(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) && !errors.Is(err, os.ErrClosed) {
		return nil // os.Root's own, for a name that leads out of it
	}
	switch errno {
	case syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL:
		return nil
	}
	return err
}
