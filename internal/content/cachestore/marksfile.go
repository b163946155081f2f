package cachestore

import "os"

// marksBatch are marks that are written together, in the order of their numbers.
type marksBatch struct {
	list []mark
	done chan struct{} // closed once they are written, or are not
	err  error
}

// note has marks written beside. The caller holds Store.mu.
func (d *disk) note(list []mark) *marksBatch {
	if d.noted == nil {
		d.noted = &marksBatch{done: make(chan struct{})}
	}
	d.noted.list = append(d.noted.list, list...)
	if !d.noting {
		d.noting = true
		go d.writeNoted()
	}
	return d.noted
}

// writeNoted writes marks until there are no more.
func (d *disk) writeNoted() {
	for {
		d.writing.Lock()
		d.store.mu.Lock()
		b := d.noted
		d.noted, d.noting = nil, b != nil
		d.store.mu.Unlock()
		if b != nil {
			b.err = d.writeMarks(b.list)
			close(b.done)
		}
		d.writing.Unlock()
		if b == nil {
			return
		}
	}
}

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
	list := d.store.purges.list()
	noted := d.noted // in the list, or they have taken effect
	d.noted = nil
	d.store.mu.Unlock()
	var b []byte
	for _, m := range list {
		b = appendMark(b, m)
	}
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
	if noted != nil {
		noted.err = err
		close(noted.done)
	}
	if err != nil {
		d.failed("write", err)
		return
	}
	d.marks.Close()
	d.marks = f
}
