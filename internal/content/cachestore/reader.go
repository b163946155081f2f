package cachestore

import (
	"io"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/lwango/lwango/loop"
)

// Reader reads an answer while it comes. It belongs to one thread at a time. It is an io.Reader for
// SetBodyReader, and a loop.Source, which is ready when Head, and after that Read, need not wait.
type Reader struct {
	fill   *Fill
	thread *loop.Thread // that reads, see Bind
	wait   time.Duration
	wants  uint8

	// Guarded by the fill's lock.
	off     int64
	waiting *loop.Thread
	err     error      // of this reader alone
	client  netip.Addr // see shares; zero: not known yet, or there is none
}

// What a reader waits for.
const (
	wantsHead = iota
	wantsBytes
	wantsObject
)

// join makes a reader, or returns nil if the answer is not what match asks for, or cannot be joined
// any more. The caller holds Store.mu.
func (f *Fill) join(match func(*Head) bool) *Reader {
	h := f.head.Load()
	if h != nil && !match(h) {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.purged || f.stale > 0 || !f.kept || h == nil && f.alone {
		return nil
	}
	f.seen = true
	r := &Reader{fill: f}
	f.readers = append(f.readers, r)
	return r
}

// leave takes r from the readers. The caller holds f.mu.
func (f *Fill) leave(r *Reader) {
	if i := slices.Index(f.readers, r); i >= 0 {
		last := len(f.readers) - 1
		f.readers[i] = f.readers[last]
		f.readers[last] = nil
		f.readers = f.readers[:last]
	}
	if f.using != nil {
		f.store.drop(f.using, r.client)
	}
	f.passed(r, r.off)
	f.drop()
}

// wake wakes the thread that waits. The caller holds the fill's lock.
func (r *Reader) wake() {
	if r.waiting != nil {
		loop.Notify(r.waiting)
	}
}

// Head waits for the head, for d at most; negative: without limit. The error is that of
// Abort, or one of AwaitAny's.
func (r *Reader) Head(t *loop.Thread, d time.Duration) (*Head, error) {
	r.wants = wantsHead
	if !r.Ready() {
		if _, err := t.AwaitAny(d, r); err != nil {
			return nil, err
		}
	}
	r.wants = wantsBytes
	if h := r.fill.head.Load(); h != nil {
		return h, nil
	}
	r.fill.mu.Lock()
	defer r.fill.mu.Unlock()
	return nil, r.fill.end
}

// Length is that of the body in bytes, as declared, once the head has come; -1: unknown.
func (r *Reader) Length() int64 { return r.fill.length }

// Bind says which thread reads, and how long a Read waits for more at most; negative: no limit.
func (r *Reader) Bind(t *loop.Thread, d time.Duration) {
	r.thread, r.wait = t, d
	if f := r.fill; !r.client.IsValid() && t != nil {
		client := t.Layer().Client()
		f.mu.Lock()
		if r.client = client; f.using != nil && r.err == nil {
			f.store.hold(f.using, client, false)
		}
		f.mu.Unlock()
	}
}

// Read implements io.Reader. It waits for more to come. The error is io.EOF once the answer is
// complete, or that of Abort, or one of AwaitAny's.
func (r *Reader) Read(p []byte) (int, error) {
	r.wants = wantsBytes
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, err := r.take(p)
		if n > 0 || err != nil {
			return n, err
		}
		if _, err := r.thread.AwaitAny(r.wait, r); err != nil {
			return 0, err
		}
	}
}

// take is Read as far as it need not wait.
func (r *Reader) take(p []byte) (int, error) {
	f := r.fill
	f.mu.Lock()
	if r.err != nil || r.off == f.size {
		err := r.err
		if err == nil {
			err = f.end
		}
		f.mu.Unlock()
		return 0, err
	}
	if r.off < f.base {
		file, p := f.out.file, p[:min(int64(len(p)), f.base-r.off)]
		f.mu.Unlock()
		n, err := r.fromFile(file, p, f.out.record.body+r.off)
		f.mu.Lock()
		r.advance(int64(n))
		f.mu.Unlock()
		return n, err
	}
	at := r.off - f.base
	from := f.chunks[at/chunk][at%chunk:]
	f.mu.Unlock()
	n := copy(p, from)
	f.mu.Lock()
	r.advance(int64(n))
	f.mu.Unlock()
	return n, nil
}

// advance notes that r has read n bytes. The caller holds the fill's lock.
func (r *Reader) advance(n int64) {
	before := r.off
	r.off += n
	r.fill.passed(r, before)
}

// Skip is Read without the bytes: it skips n of them at most, and returns how many. That costs the
// same, however many there are.
func (r *Reader) Skip(n int64) (int64, error) {
	r.wants = wantsBytes
	f := r.fill
	for {
		f.mu.Lock()
		skipped, err := min(n, f.size-r.off), r.err
		switch {
		case err != nil:
			skipped = 0
		case skipped > 0:
			r.advance(skipped)
		default:
			err = f.end
		}
		f.mu.Unlock()
		if skipped > 0 || err != nil || n <= 0 {
			return skipped, err
		}
		if _, err := r.thread.AwaitAny(r.wait, r); err != nil {
			return 0, err
		}
	}
}

// Object waits until the answer is kept or is not, for d at most, and returns the object: for a
// request that needs all of it, such as one for ranges. The error is that of Abort, ErrNotKept, or
// one of AwaitAny's.
func (r *Reader) Object(t *loop.Thread, d time.Duration) (*Object, error) {
	r.wants = wantsObject
	if !r.Ready() {
		if _, err := t.AwaitAny(d, r); err != nil {
			return nil, err
		}
	}
	f := r.fill
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.object != nil:
		return f.object, nil
	case !f.done:
		return nil, r.err
	case f.end == io.EOF:
		return nil, ErrNotKept
	}
	return nil, f.end
}

// Unlist lets nobody join the answer any more: it takes too long.
func (r *Reader) Unlist() { r.fill.unlist(true) }

// Close leaves the answer. It may be called twice.
func (r *Reader) Close() error {
	f := r.fill
	f.mu.Lock()
	last := false
	if r.err == nil {
		r.err = os.ErrClosed
		f.leave(r)
		last = f.done && len(f.readers) == 0
	}
	if last {
		f.forget()
		last = f.held > 0 || f.using != nil // they change no more, but by left
	}
	f.mu.Unlock()
	if last {
		f.left()
	}
	return nil
}

// Watch implements loop.Source.
func (r *Reader) Watch(t *loop.Thread) error {
	r.fill.mu.Lock()
	defer r.fill.mu.Unlock()
	r.waiting = t
	return nil
}

// Ready implements loop.Source.
func (r *Reader) Ready() bool {
	f := r.fill
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.done || r.err != nil:
		return true
	case r.wants == wantsHead:
		return f.head.Load() != nil
	case r.wants == wantsBytes:
		return r.off < f.size || f.end != nil
	}
	return false
}

// Unwatch implements loop.Source.
func (r *Reader) Unwatch(*loop.Thread) {
	r.fill.mu.Lock()
	defer r.fill.mu.Unlock()
	r.waiting = nil
}
