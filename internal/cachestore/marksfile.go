package cachestore

import "os"

// maxMarksFile is from which length on the file of purges is written anew, in bytes.
const maxMarksFile = 1 << 20

// writeMarks has purges outlast the process. The caller holds d.writing.
func (d *disk) writeMarks(list []mark) error {
	var b []byte
	for _, m := range list {
		b = appendMark(b, m)
	}
	if d.marks == nil {
		return nil // begin writes them
	}
	if _, err := d.marks.Write(b); err != nil {
		d.failed("write", err)
		return err
	}
	if d.logged += int64(len(b)); d.logged > maxMarksFile {
		d.logged = 0
		d.do(d.compact)
	}
	return nil
}

// compact writes the file of purges anew, with those that are still remembered. The others have
// taken effect.
func (d *disk) compact() {
	d.writing.Lock()
	defer d.writing.Unlock()
	d.store.mu.Lock()
	var b []byte
	for _, m := range d.store.purges.list() {
		b = appendMark(b, m)
	}
	d.store.mu.Unlock()
	root := d.openRoot()
	f, err := root.OpenFile("new/purges", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err == nil {
		if _, err = f.Write(b); err == nil {
			err = root.Rename("new/purges", "purges")
		}
		if err != nil {
			f.Close()
		}
	}
	if err != nil {
		d.failed("write", err)
		return
	}
	d.marks.Close()
	d.marks = f
}
