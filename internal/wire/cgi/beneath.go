package cgi

import (
	"syscall"

	"github.com/lwango/lwango/internal/base/sysio"
)

// Beneath is the FS of a folder. A symbolic link that leads out of it is Absent. The kernel
// resolves each segment, so an attacker who renames files meanwhile gains nothing.
type Beneath struct{ Folder *sysio.Folder }

// Stat says what name stands for.
func (b Beneath) Stat(name string) (Entry, error) { return entry(b.Folder.Mode(name)) }

// Following is the FS of a folder, an absolute path, out of which symbolic links may lead.
type Following struct{ Dir string }

// Stat says what name stands for.
func (f Following) Stat(name string) (Entry, error) { return entry(sysio.Mode(f.Dir + "/" + name)) }

// entry returns what a file of that mode is, if there is no error.
func entry(mode uint32, err error) (Entry, error) {
	switch {
	case sysio.Absent(err):
		return Absent, nil
	case err != nil:
		return Absent, err
	}
	switch mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		return Regular, nil
	case syscall.S_IFDIR:
		return Folder, nil
	}
	return Special, nil
}
