package cache

import (
	"io"

	"github.com/lwango/lwango/loop"
)

// pipe takes the content of an answer that is not kept from the subrequest that makes it to the
// client that has asked for it, at that client's pace. It holds nothing: the subrequest waits until
// its piece is taken. Both threads are of one loop.
type pipe struct {
	of      *fill
	length  int64  // of the content, as declared; -1: unknown
	content []byte // a copy of all of it, if it is short and was there at once; else nil

	piece  []byte       // the subrequest's
	left   int64        // of length, not taken yet; -1: unknown
	closed bool         // the client has left, or has got its part
	client *loop.Thread // that reads
	reads  *loop.Thread // that waits to read; nil: none does
	writes *loop.Thread // that waits until piece is taken; nil: none does
}

// write is called by the subrequest's thread t.
func (q *pipe) write(t *loop.Thread, p []byte) error {
	q.piece = p
	defer func() { q.piece = nil }() // also when the thread is killed
	for len(q.piece) > 0 {
		if q.closed {
			return errNoReaders
		}
		wake(q.reads)
		if _, err := t.AwaitAny(-1, (*writing)(q)); err != nil {
			return err
		}
	}
	return nil
}

// await waits for a piece. The error is io.EOF at the end of the answer, or that of one that has
// broken off.
func (q *pipe) await() error {
	for len(q.piece) == 0 {
		if f := q.of; f.ended && f.err == nil {
			return io.EOF
		} else if f.ended {
			return f.err
		}
		if _, err := q.client.AwaitAny(-1, (*reading)(q)); err != nil {
			return err
		}
	}
	return nil
}

// Read implements io.Reader.
func (q *pipe) Read(p []byte) (int, error) {
	if err := q.await(); err != nil {
		return 0, err
	}
	return q.took(copy(p, q.piece)), nil
}

// Skip is Read without the bytes, of which it skips n at most.
func (q *pipe) Skip(n int64) (int64, error) {
	if err := q.await(); err != nil {
		return 0, err
	}
	return int64(q.took(int(min(n, int64(len(q.piece)))))), nil
}

func (q *pipe) took(n int) int {
	if q.left >= 0 {
		q.left -= int64(n)
	}
	if q.piece = q.piece[n:]; len(q.piece) == 0 {
		wake(q.writes)
	}
	return n
}

// Close implements io.Closer. A handler whose content is not wanted any more gets no further.
func (q *pipe) Close() error {
	q.closed = true
	wake(q.writes)
	if q.left != 0 && !q.of.ended {
		q.of.background.Cancel()
	}
	return nil
}

func wake(t *loop.Thread) {
	if t != nil {
		t.Layer().NotifyLocal()
	}
}

// reading and writing make a pipe a loop.Source, for either end.
type (
	reading pipe
	writing pipe
)

func (q *reading) Watch(t *loop.Thread) error {
	q.reads = t
	return nil
}

func (q *reading) Ready() bool { return len(q.piece) > 0 || q.of.ended }

func (q *reading) Unwatch(*loop.Thread) { q.reads = nil }

func (q *writing) Watch(t *loop.Thread) error {
	q.writes = t
	return nil
}

func (q *writing) Ready() bool { return len(q.piece) == 0 || q.closed }

func (q *writing) Unwatch(*loop.Thread) { q.writes = nil }
