package conn

import (
	"io"
	"os"
	"sync"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
	"golang.org/x/sys/unix"
)

const (
	gather    = 16 << 10 // output is written at this size at the latest
	copyBelow = 4 << 10  // smaller pieces are copied to the output, others are not
)

// heldBuffer is the largest buffer that a response keeps when its handler has flushed and now
// waits.
const heldBuffer = 4 << 10

// fewBytes is how much of a body is read for a client that takes nothing at present. Most often
// that lasts only until other streams have had their turn, and each piece costs a frame and a turn
// of its thread, so there are not very few.
const fewBytes = heldBuffer

// buffers are for responses that outgrow heldBuffer.
var buffers = sync.Pool{New: func() any { return new([streamAt]byte) }}

// fileReader reads a part of a file. If that has to come from a disk, the thread waits for it, and
// its loop does not.
type fileReader struct {
	t        *loop.Thread
	fd       int
	off, end int64
	warm     int64 // up to here, the file is in the page cache
}

func newFileReader(t *loop.Thread, f File, off, n int64) *fileReader {
	return &fileReader{t: t, fd: int(f.Fd()), off: off, end: off + n, warm: off}
}

func (r *fileReader) Read(p []byte) (int, error) {
	if r.off >= r.end {
		return 0, io.EOF
	}
	if r.off >= r.warm {
		n := min(r.end-r.off, turnBudget)
		if err := stream.Warm(r.t, r.fd, r.off, n); err != nil {
			return 0, err
		}
		r.warm = r.off + n
	}
	for {
		n, err := unix.Pread(r.fd, p[:min(int64(len(p)), r.warm-r.off)], r.off)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, os.NewSyscallError("pread", err)
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		}
		r.off += int64(n)
		return n, nil
	}
}

const (
	keptBuffer = 64 << 10 // larger buffers are not kept for the next request
	turnBudget = stream.TurnBudget
)

// streamAt is how much Write gathers before it sends the head.
const streamAt = 32 << 10
