package main

import (
	"errors"
	"io"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/names"
	"github.com/lwango/lwango/internal/wire/byteranges"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/mediatype"
)

// file answers a request for a file. fields are those that the answer has in any case.
func (k *connection) file(fields string) error {
	raw := k.head.Path.Of(k.in[k.used:])
	path, err := http1.CleanPath(nil, raw)
	var refused *http1.Error
	if errors.As(err, &refused) {
		return k.answer(refused.Status, fields, "")
	}
	if names.Hidden(path) {
		return k.answer(404, fields, "")
	}
	name := path[1:]
	if path[len(path)-1] == '/' {
		name = append(append([]byte{}, name...), "index.html"...)
	}
	fd, err := k.c.Open(k.root, name)
	if err != nil {
		return k.answer(statusOf(err), fields, "")
	}
	defer k.c.CloseFD(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil { // a local inode is in memory by now
		return k.answer(500, fields, "")
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return k.regular(fields, name, fd, &st)
	case unix.S_IFDIR:
		if path[len(path)-1] == '/' {
			return k.answer(404, fields, "") // the index is a folder
		}
		to := string(http1.AppendMerged(nil, http1.Sent(raw))) + "/"
		if query := k.head.Query.Of(k.in[k.used:]); len(query) > 0 {
			to += "?" + http1.EscapeQuery(string(query))
		}
		if len(to) > headRoom/2 {
			return k.answer(414, fields, "")
		}
		return k.begin(301, fields+"Location: "+to+"\r\n", 0)
	}
	return k.answer(404, fields, "") // a FIFO, a device
}

// statusOf returns the status for a file that could not be opened. One out of reach looks like one
// that does not exist.
func statusOf(err error) int {
	var errno syscall.Errno
	errors.As(err, &errno)
	switch errno {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.ENAMETOOLONG, unix.EINVAL,
		unix.ENXIO, unix.ENODEV:
		return 404
	case unix.EACCES, unix.EPERM:
		return 403
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN:
		return 503
	}
	return 500
}

// regular answers with a regular file, a part of it, or nothing of it.
func (k *connection) regular(fields string, name []byte, fd int, st *unix.Stat_t) error {
	about, v := describe(st)
	switch status := http1.Precondition(k, v, true); status {
	case http1.NotModified:
		return k.answer(status, fields+about, "")
	case http1.PreconditionFailed:
		return k.answer(status, fields, "")
	}
	status, size := 200, st.Size
	content := &file{k.c, fd}
	var body io.Reader = io.NewSectionReader(content, 0, size)
	kind, length := mediatype.Of(string(name), nil), size
	if ranges, err := k.ranges(v, size); errors.Is(err, http1.ErrRangeUnsatisfiable) {
		return k.answer(416,
			fields+"Content-Range: "+byteranges.ContentRange(http1.Range{}, size)+"\r\n", "")
	} else if err == nil && len(ranges) == 1 {
		r := ranges[0]
		status, length, body = 206, r.Length, io.NewSectionReader(content, r.Start, r.Length)
		about += "Content-Range: " + byteranges.ContentRange(r, size) + "\r\n"
	} else if err == nil && len(ranges) > 1 {
		var boundary string
		status = 206
		body, boundary, length = byteranges.New(content, ranges, kind, size)
		kind = "multipart/byteranges; boundary=" + boundary
	}
	err := k.begin(status, fields+about+"Accept-Ranges: bytes\r\nContent-Type: "+kind+"\r\n", length)
	if err != nil || k.head.Method == http1.HEAD {
		return err
	}
	return k.sendBody(body, length)
}

// ranges returns the ranges that are asked for, and none, or ErrRangeInvalid, if the answer is the
// whole file.
func (k *connection) ranges(v http1.Validators, size int64) ([]http1.Range, error) {
	value, next := k.HeaderViewFrom("Range", 0)
	if next < 0 || k.head.Method != http1.GET || !http1.RangeApplies(k, v, time.Now(), false) {
		return nil, nil
	}
	if _, next = k.HeaderViewFrom("Range", next); next >= 0 {
		return nil, nil // which of them is meant?
	}
	return http1.ParseRange(string(value), size)
}

// describe returns the fields that tell one state of a file from another, and their values. The
// entity tag is the modification time and the length. Where that time says nothing, as in images
// that are the same each time they are built, it is the inode and its change, and there is no date.
func describe(st *unix.Stat_t) (fields string, v http1.Validators) {
	state := strconv.FormatInt(st.Mtim.Nano(), 16)
	if st.Mtim.Sec <= 1 {
		state = strconv.FormatUint(st.Ino, 16) + "-" + strconv.FormatInt(st.Ctim.Nano(), 16)
	}
	v.ETag = `"` + state + "-" + strconv.FormatInt(st.Size, 16) + `"`
	fields = "ETag: " + v.ETag + "\r\n"
	if st.Mtim.Sec > 1 {
		v.Dated, v.Modified = true, min(st.Mtim.Sec, time.Now().Unix())
		date := http1.AppendDate(nil, time.Unix(v.Modified, 0))
		fields += "Last-Modified: " + string(date) + "\r\n"
	}
	return fields, v
}

// file is an open file, for those that read by io.ReaderAt into a block.
type file struct {
	c  *Context
	fd int
}

func (f *file) ReadAt(p []byte, offset int64) (int, error) { return f.c.ReadAt(f.fd, p, offset) }
