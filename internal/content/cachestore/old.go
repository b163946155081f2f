package cachestore

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// setAside moves the folders of the objects' files to `old`: to remove a large store takes minutes,
// and the server does not serve meanwhile.
func setAside(root *os.Root) error {
	if err := root.Mkdir("old", 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	before := rand.Text() // there may be some already
	for i := range 256 {
		name := fmt.Sprintf("%02x", i)
		err := root.Rename(name, "old/"+name+"-"+before)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeOld removes what was set aside, now or before an earlier end, until the store is closed.
func (d *disk) removeOld(root *os.Root) {
	old, err := root.Open("old")
	if err != nil {
		return // nothing was
	}
	names, err := old.Readdirnames(-1)
	old.Close()
	for _, name := range names {
		if d.closed.Load() {
			return
		}
		err = cmp.Or(err, root.RemoveAll("old/"+name))
	}
	if err = cmp.Or(err, root.Remove("old")); err != nil && !errors.Is(err, fs.ErrClosed) &&
		!errors.Is(err, fs.ErrNotExist) {
		d.failed("remove", err)
	}
}
