package conn

import (
	"bytes"
	"errors"
	"io"
	"net/netip"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/stream"
)

// Spooled is a whole request body. It can be read any number of times, without waiting for the
// client.
type Spooled interface {
	io.Reader
	io.ReaderAt
	io.Seeker
}

// TempFile is a temporary file without a name. max_spool limits the bytes of all of them together,
// and of those for one client to as much as is free, unless the client has only one. A write that
// finds no room returns ErrSpoolFull.
type TempFile interface {
	Spooled
	io.Writer
	io.WriterAt

	// Spare marks the file as dispensable: its writes leave the last quarter of max_spool to others.
	Spare()

	// Close frees the file. A second call has no effect.
	Close() error
}

// TempFile makes a file in spool_dir. Its error may be ErrNoDescriptor. The caller closes it; a
// caller that waits before that does so in a deferred call, since its thread may be killed while it
// waits.
func (r RequestLayer) TempFile() (TempFile, error) {
	if r.over() {
		return nil, ErrComplete
	}
	f, err := r.tempFile(r.x.c.port.server.temp.Create)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Spool reads what is left of the body. Up to maxMemory bytes stay in memory; a longer body goes to
// a TempFile, which is closed when the request ends. Spool returns the body, positioned at its
// beginning, and its length in bytes. A body in a file is an io.Closer as well, for a caller that
// is done with it long before the request ends. The error is that of Body.Read, ErrSpoolFull, or
// the file's. A body that is still being sent, and comes more slowly than others, gives way to them
// when there is no room; then the error is ErrSpoolFull, too.
//
// While Spool waits for the client it has no buffer beside the part in memory. It writes the file
// in pieces of 32 KiB at most, to the page cache; if the disk cannot keep up, the loop waits for
// it.
func (r RequestLayer) Spool(maxMemory int64) (Spooled, int64, error) {
	head, next, err := r.gather(maxMemory)
	if err == io.EOF {
		return bytes.NewReader(head), int64(len(head)), nil
	}
	if err != nil {
		return nil, 0, err
	}
	file, n, err := r.spill(head, next)
	if errors.Is(err, ErrSpoolFull) || err == ErrNoDescriptor {
		r.noSpool(err)
	}
	if err != nil {
		return nil, 0, err
	}
	return file, n, nil
}

// noSpool notes that there is no room for the body. Unless the handler answers by itself, the
// client gets 503.
func (r *Request) noSpool(err error) {
	_ = r.body.failed(err)
	r.x.c.port.server.noteSpool(r.x, err)
}

// firstSpool is how much memory a body gets at first, if it is large or of unknown length.
const firstSpool = 4 << 10

// gather reads a body to its end, and returns io.EOF. If the body is longer than most bytes, gather
// stops behind them with one more byte, next, and no error. Its memory grows with what arrives,
// since Content-Length is only a claim.
func (r *Request) gather(most int64) (head, next []byte, err error) {
	b, limit := r.Body(), most // of a middleware's body the length is -1
	if n := r.ContentLength(); n >= 0 {
		limit = min(most, n)
	}
	for {
		if err := b.AwaitInput(); err != nil {
			return head, nil, err
		}
		for err = nil; err == nil && b.ended() == nil; { // the end needs no room
			if n := int64(cap(head)); len(head) == cap(head) && n < limit {
				head = append(make([]byte, 0, min(limit, max(2*n, firstSpool))), head...)
			}
			free := head[len(head):cap(head)]
			if len(free) == 0 {
				free = make([]byte, 1)
			}
			var n int
			if n, err = b.readNow(free); len(head) < cap(head) {
				head = head[:len(head)+n]
			} else if n > 0 {
				return head, free, nil
			}
		}
	}
}

// spill writes head, next and what is left of the body to a file, and returns it with its length.
func (r *Request) spill(head, next []byte) (*sysio.TempFile, int64, error) {
	temp := &r.x.c.port.server.temp
	file, err := r.tempFile(temp.CreateUpload)
	if err != nil {
		return nil, 0, err
	}
	r.Defer(func() { _ = file.Close() })
	for _, p := range [2][]byte{head, next} {
		if _, err := file.Write(p); err != nil {
			return nil, 0, err
		}
	}
	n := int64(len(head) + len(next))
	head = nil // free it while the rest arrives
	for {
		err := r.body.AwaitInput()
		if err == io.EOF {
			if err = temp.Keep(file); err == nil {
				_, err = file.Seek(0, io.SeekStart)
			}
			return file, n, err
		}
		if err != nil {
			return nil, 0, err
		}
		moved, err := r.copyBody(file)
		n += moved
		if err != nil {
			return nil, 0, err
		}
	}
}

// copyBody writes what has arrived of the body to w. It has a buffer only while it runs.
func (r *Request) copyBody(w io.Writer) (n int64, err error) {
	buf := buffers.Get().(*[streamAt]byte)
	defer buffers.Put(buf) // also when the thread is killed
	for {
		k := 0
		for k < len(buf) && err == nil {
			var m int
			m, err = r.body.readNow(buf[k:])
			k += m
		}
		if k > 0 {
			if _, err := w.Write(buf[:k]); err != nil {
				return n, err
			}
			n += int64(k)
		}
		switch {
		case err == stream.ErrWouldBlock, err == io.EOF: // Await returns the end, or waits
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

// readNow is Read that returns stream.ErrWouldBlock instead of waiting. That of a middleware, which
// need not know that error, waits.
func (b *Body) readNow(p []byte) (int, error) {
	if b.replacement != nil {
		return b.Read(p)
	}
	defer func(before bool) { b.tryOnly = before }(b.tryOnly)
	b.tryOnly = true
	return b.Read(p)
}

// TakeDescriptor is called before a descriptor is opened for the request, such as a connection to
// an upstream, and GiveDescriptor when that is closed, or serves another request. What is not given
// back counts until the request's connection or stream ends. The error is ErrNoDescriptor. Only the
// request's thread may call the two.
func (r RequestLayer) TakeDescriptor() error {
	if st := r.stream(); st != nil && !st.takeDescriptor() {
		return ErrNoDescriptor
	}
	return nil
}

// GiveDescriptor undoes TakeDescriptor.
func (r RequestLayer) GiveDescriptor() {
	if st := r.stream(); st != nil {
		st.giveDescriptors(1)
	}
}

// stream returns the request's carrier if that is a stream of HTTP/2; nil: it is none.
func (r RequestLayer) stream() multiplexed {
	if r.x == nil {
		return nil
	}
	return r.x.via.multiplexed()
}

// tempFile makes a temporary file for the request by create, and counts its descriptor.
func (r *Request) tempFile(
	create func(netip.Addr) (*sysio.TempFile, error)) (*sysio.TempFile, error) {
	l := r.Layer()
	if err := l.TakeDescriptor(); err != nil {
		return nil, err
	}
	f, err := create(r.RemoteAddr().Addr())
	switch st := l.stream(); {
	case err != nil:
		l.GiveDescriptor()
		return nil, err
	case st != nil:
		f.Closed = st.descriptorGiver()
	}
	return f, nil
}
