package conn

import (
	"bytes"
	"io"

	"github.com/lwango/lwango/internal/sysio"
)

// Spooled is a whole request body, ready to be read any number of times, without waiting for the client.
type Spooled interface {
	io.Reader
	io.ReaderAt
	io.Seeker
}

// Spool reads what is left of the body: up to maxMemory bytes stay in memory, a longer one goes to a temporary file in
// os.TempDir, which has no name and is closed when the request ends. It returns the body, positioned
// at its beginning, and its length in bytes. A body in a file is an io.Closer as well, for whoever is done with it long
// before the request is. The error is that of Body.Read, or the file's.
//
// Writing the file goes to the page cache; where the disk cannot keep up, the loop waits for it.
func (r *Request) Spool(maxMemory int64) (Spooled, int64, error) {
	if err := r.body.Await(); err != nil && err != io.EOF {
		return nil, 0, err
	}
	var head bytes.Buffer // it grows with what comes: a length is quickly said
	head.Grow(int(min(max(r.ContentLength(), 0), maxMemory, 4<<10)) + bytes.MinRead)
	n, err := io.CopyN(&head, &r.body, maxMemory+1)
	if err == io.EOF {
		return bytes.NewReader(head.Bytes()), n, nil
	}
	if err != nil {
		return nil, 0, err
	}
	file, err := sysio.TempFile()
	if err != nil {
		return nil, 0, err
	}
	r.Defer(func() { _ = file.Close() })
	if _, err := head.WriteTo(file); err != nil {
		return nil, 0, err
	}
	// Not io.Copy: an *os.File would look for a way to have the kernel copy, and find that a Body has none.
	more, err := io.CopyBuffer(struct{ io.Writer }{file}, &r.body, make([]byte, 32<<10))
	if err != nil {
		return nil, 0, err
	}
	_, err = file.Seek(0, io.SeekStart)
	return file, n + more, err
}
