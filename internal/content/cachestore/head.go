package cachestore

import (
	"hash/crc32"
	"io"
	"os"
)

// readHead reads the head of an open file.
func (d *disk) readHead(f *os.File) (*record, error) {
	d.heads.RLock()
	defer d.heads.RUnlock()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 4<<10)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if n < fixedHead {
		return nil, errDamaged
	}
	need, err := headLen(b[:n])
	if err != nil {
		return nil, err
	}
	if need > n {
		b = append(b[:n], make([]byte, need-n)...)
		if _, err := f.ReadAt(b[n:], int64(n)); err == io.EOF {
			return nil, errDamaged
		} else if err != nil {
			return nil, err
		}
		n = need
	}
	return decode(b[:n], info.Size())
}

// check reads a file's head, and its body unless that was done before, and tells whether they are
// what was written.
func (d *disk) check(o *os.File, f *file, verified bool) error {
	if verified {
		return nil
	}
	r, err := d.readHead(o)
	if err != nil {
		return err
	}
	sum := checksum{disk: d}
	body := io.NewSectionReader(o, r.body, r.size)
	if _, err := io.CopyBuffer(&sum, body, make([]byte, 256<<10)); err != nil {
		return err
	}
	if sum.crc != r.crc {
		return errDamaged
	}
	return nil
}

// checksum is an io.Writer that makes one.
type checksum struct {
	disk *disk
	crc  uint32
}

func (c *checksum) Write(p []byte) (int, error) {
	c.crc = crc32.Update(c.crc, castagnoli, p)
	c.disk.checked.Add(uint64(len(p)))
	return len(p), nil
}
