package loop

import (
	"errors"
	"net"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/sysio"
)

// ErrAwaited is returned when a descriptor is already waited for on the same loop, or is the thread's own, for which
// there is WantRead. Across loops that cannot be seen: two loops that await one descriptor are both told.
var ErrAwaited = errors.New("descriptor is awaited already")

// Open makes d the loop's record of the stream socket fd, non-blocking, which any of its threads may use from now on;
// but only one at a time may wait for input, and one for output. On an error fd is still the caller's.
func (l *Loop) Open(d *Descriptor, fd int) error {
	*d = Descriptor{fd: int32(fd), flags: lent | mask(in|rdhup)}
	err := l.add(d)
	d.flags = lent
	if err != nil {
		d.fd = -1
	}
	return err
}

// Release takes d, which Open has made or which is a thread's own, out of the loop, and returns its number, -1 if it
// has none any more. Who waits for it gets net.ErrClosed, or goes on in WantRead. It is called by the loop's threads,
// or on the loop.
func (l *Loop) Release(d *Descriptor) (fd int) {
	if fd = int(d.fd); fd >= 0 {
		gone := d.flags & finished
		l.remove(d)
		l.evict(d)
		d.flags = d.flags&^finished | gone // nobody has left: a thread goes on without a client
	}
	return fd
}

// CloseDescriptor closes what Release returns.
func (l *Loop) CloseDescriptor(d *Descriptor) {
	if fd := l.Release(d); fd >= 0 {
		sysio.Close(fd)
	}
}

// Rouse has whoever waits for d, idle threads aside, look at it again, as if an event had come.
func (l *Loop) Rouse(d *Descriptor) {
	if d.flags&lent != 0 || d.thread.co != nil {
		l.wakeWaiters(d, d.flags.wanted())
	}
}

// AwaitRead has t wait until d can be read or has hung up, at most timeout; negative: without limit. d is t's own or
// one that Open has made. For t's own the errors are those of WantRead, else those of AwaitRead.
func (d *Descriptor) AwaitRead(t *Thread, timeout time.Duration) error {
	return d.await(t, in, timeout)
}

// AwaitWrite has t wait until d can be written.
func (d *Descriptor) AwaitWrite(t *Thread, timeout time.Duration) error {
	return d.await(t, out, timeout)
}

// AwaitReadWrite has t wait until d can be read or written.
func (d *Descriptor) AwaitReadWrite(t *Thread, timeout time.Duration) error {
	return d.await(t, in|out, timeout)
}

func (d *Descriptor) await(t *Thread, events uint16, timeout time.Duration) error {
	if d == &t.own {
		return t.want(wantCode[events], timeout)
	}
	if d.flags&lent == 0 {
		return ErrAwaited
	}
	t.flush()
	if err := t.refused(); err != nil {
		return err
	}
	if err := t.loop.claim(t, d, events); err != nil {
		return err
	}
	t.loop.tick() // what the thread did before may have taken its time
	return t.await(d, events, t.loop.after(timeout))
}

// await waits for the events of d, which t has claimed, and ends the claim.
func (t *Thread) await(d *Descriptor, events uint16, until int64) error {
	defer t.loop.release(d, events) // also when the thread is killed
	err := t.wait(coro.Make(awaitCode[events], int(d.fd)), until)
	if d.fd < 0 {
		return net.ErrClosed
	}
	return err
}

// claim has t told of the events of a descriptor that is no thread's own. One thread may wait for input and another for
// output.
func (l *Loop) claim(t *Thread, d *Descriptor, events uint16) error {
	if d.fd < 0 {
		return net.ErrClosed
	}
	wanted := d.flags.wanted() & (in | out)
	switch {
	case wanted&events != 0:
		return ErrAwaited
	case wanted == 0 || d.thread == t:
		d.thread = t
	case events == out:
		l.split(d, d.thread, t)
	default:
		l.split(d, t, d.thread)
	}
	d.flags |= mask(events)
	return nil
}

func (l *Loop) split(d *Descriptor, reader, writer *Thread) {
	if l.writers == nil {
		l.writers = make(map[*Descriptor]*Thread)
	}
	d.flags |= split
	d.thread, l.writers[d] = reader, writer
}

// release ends a claim.
func (l *Loop) release(d *Descriptor, events uint16) {
	d.flags &^= mask(events)
	if d.flags&split != 0 {
		if events&in != 0 {
			d.thread = l.writers[d]
		}
		d.flags &^= split
		delete(l.writers, d)
	}
}
