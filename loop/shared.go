package loop

import (
	"net"
	"time"
	"unsafe"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/sysio"
)

// Shared is a Descriptor that is no thread's own: a socket that Register was given, or a raw
// descriptor. Any thread of the loop may wait for it, but only one at a time for input and one
// for output. Such a wait begins with a claim.
//
// The embedded Descriptor's thread is woken when d can be read, and writer when it can be written.
// They differ only while two threads have claims. Otherwise both are the thread that has a claim,
// or had the last one.
type Shared struct {
	Descriptor
	writer *Thread
	loop   *Loop
}

// asShared returns the Shared that d is the first field of, or nil if d is a thread's own. Register
// and registerRawFD set the flag shared in a Shared, and nothing sets it elsewhere, so the
// conversion is safe. A pointer from each Descriptor to its Shared would do as well, but it would
// make the record of every idle connection larger.
func (d *Descriptor) asShared() *Shared {
	if d.flags&shared == 0 {
		return nil
	}
	return (*Shared)(unsafe.Pointer(d))
}

// Register makes d the loop's record of the stream socket fd, non-blocking, which any of its
// threads may use from now on. On an error, which is epoll_ctl's, fd is still the caller's. If
// there are duplicates of fd, the caller closes it by Deregister and close(2), not by
// CloseDescriptor.
func (l LoopLayer) Register(d *Shared, fd int) error {
	*d = Shared{Descriptor: Descriptor{fd: int32(fd), flags: shared | sole}, loop: l.Loop}
	err := l.add(&d.Descriptor, in)
	if err != nil {
		d.fd = -1
	}
	return err
}

// Deregister takes d, which Register has registered or which is a thread's own, out of the loop,
// and returns its number, or -1 if it has none any more. A thread that waits for d gets
// net.ErrClosed, or returns from WantRead. What was put off is sent as far as there is room.
// Deregister is called by the loop's threads, or on the loop.
func (l LoopLayer) Deregister(d *Descriptor) (fd int) {
	l.flushBeforeRemove(d)
	if d.fd >= 0 {
		l.remove(d)
	}
	return l.drop(d)
}

// drop is Deregister without the call of epoll_ctl.
func (l *Loop) drop(d *Descriptor) (fd int) {
	if fd = int(d.fd); fd >= 0 {
		gone := d.flags & finished
		l.evict(d)
		d.flags = d.flags&^finished | gone // no peer has left: the thread goes on without a client
	}
	return fd
}

// CloseDescriptor closes d's descriptor, if it has one, and takes it out of the loop as Deregister
// does.
//
// A socket that Register or Attach was given leaves epoll by close(2) itself. Nothing has
// duplicated it, see there; at most a child process has it, between fork and exec. Events that come
// meanwhile are stale, and dispatch drops them.
func (l LoopLayer) CloseDescriptor(d *Descriptor) {
	l.flushBeforeRemove(d)
	if d.fd >= 0 && d.flags&sole == 0 {
		l.remove(d)
	}
	if fd := l.drop(d); fd >= 0 {
		sysio.Close(fd)
	}
}

// WakeWaiters wakes the threads that wait for d, except idle ones, as if an event had come. They
// look at d again.
func (l LoopLayer) WakeWaiters(d *Descriptor) {
	if d.flags&shared != 0 || d.thread.co != nil {
		l.deliver(d, d.flags.awaited())
	}
}

// AwaitRead waits until d can be read or has hung up, for timeout at most, or without limit if that
// is negative. A second or more counts from the beginning of the loop's turn, since reading the
// clock would cost as much as the wait; if the loop was held up meanwhile, the wait goes on for so
// much longer. t is the calling thread. d is t's own or one of Register. For t's own the
// errors are those of WantRead, otherwise those of Thread.AwaitRead.
func (d *Descriptor) AwaitRead(t *Thread, timeout time.Duration) error {
	return d.await(t, in, timeout)
}

// AwaitWrite waits until d can be written or has hung up; see AwaitRead.
func (d *Descriptor) AwaitWrite(t *Thread, timeout time.Duration) error {
	return d.await(t, out, timeout)
}

// AwaitReadWrite waits until d can be read or written or has hung up; see AwaitRead.
func (d *Descriptor) AwaitReadWrite(t *Thread, timeout time.Duration) error {
	return d.await(t, in|out, timeout)
}

func (d *Descriptor) await(t *Thread, events uint16, timeout time.Duration) error {
	if d == &t.own {
		return t.want(wantCode[events], timeout)
	}
	s := d.asShared()
	if s == nil {
		return ErrAwaited
	}
	t.flush()
	if err := t.refused(); err != nil {
		return err
	}
	if err := s.claim(t, events); err != nil {
		return err
	}
	if 0 <= timeout && timeout < time.Second {
		t.loop.tick() // what the thread did before may have taken its time
	}
	for {
		held := t.loop.stalled
		err := t.await(s, events, t.loop.after(timeout))
		if err != ErrDeadlineExceeded || timeout < time.Second {
			return err
		}
		timeout = min(t.loop.stalled-held, timeout)
		if timeout == 0 || s.claim(t, events) != nil {
			return err
		}
	}
}

// await waits for the events of d, which t has claimed, and releases the claim.
func (t *Thread) await(d *Shared, events uint16, until int64) error {
	defer d.release(events) // also when the thread is killed
	err := t.waitWithin(coro.Make(awaitCode[events], int(d.fd)), until)
	if d.fd < 0 {
		return net.ErrClosed
	}
	if timedOut(err) && d.poll(events) {
		return nil
	}
	return err
}

// claim makes t the thread that is woken at the events.
func (d *Shared) claim(t *Thread, events uint16) error {
	if d.fd < 0 {
		return net.ErrClosed
	}
	awaited := d.flags.awaited()
	switch {
	case awaited&events != 0:
		return ErrAwaited
	case awaited == 0:
		d.thread, d.writer = t, t
	case events == in:
		d.thread = t
	default:
		d.writer = t
	}
	d.flags |= mask(events)
	return nil
}

// release releases a claim. Another claim, if there is one, stays.
func (d *Shared) release(events uint16) {
	d.flags &^= mask(events)
	if events&in != 0 {
		d.thread = d.writer
	} else {
		d.writer = d.thread
	}
}

// WakeOnReady makes the loop wake t when d can be read, if read is set, or written, if write is
// set, from now on: if t is idle, its Task is called. d is one of Register. So one thread moves
// bytes between its own socket and d, and needs no coroutine while it waits for either. The claim
// lasts until the next call; without read and write it ends. No other thread may wait for d
// meanwhile.
//
// over says that no event comes any more, and that a read or a write returns the error. The caller
// is t, or code on the loop.
func (d *Descriptor) WakeOnReady(t *Thread, read, write bool) (over bool) {
	s := d.asShared()
	var events uint16
	if read {
		events = in
	}
	if write {
		events |= out
	}
	s.thread, s.writer = t, t
	d.flags = d.flags&^mask(in|out) | mask(events)
	return events != 0 && (d.fd < 0 || t.loop.arm(d))
}
