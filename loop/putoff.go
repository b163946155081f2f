package loop

import (
	"os"
	"syscall"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/base/sysio"
	"golang.org/x/sys/unix"
)

// What threads send last before they wait can go out together. Each send(2) runs through some 40
// KiB of the kernel's code, which stays in the processor's cache from one to the next; and the
// process at the other end, which takes less time for each than this server, is still awake when
// the next one comes. That makes a small request 4 % cheaper, and a proxied one 6 %.
//
// What is put off goes out behind the threads that are ready in this turn, or when putOffMost
// others have come together. A thread that computes for long holds it up, as it holds up all else.
//
// What was put off belongs to its descriptor until the kernel has all of it. The descriptor's calls
// that write, shut or close send it first. What the kernel refuses stays with the loop, which sends
// it when there is room; until then these calls find no room either. So nothing overtakes it, and
// the users of a socket need not know of it.

const (
	// PutOffSize is how many bytes are worth putting off. More of them would cost more to copy.
	PutOffSize = 4 << 10

	putOffMost = 64 // pieces
)

// putOffs is what a loop is still to send for its descriptors. A descriptor has one piece (the flag
// putsOff), or a remainder of it (owes), or neither.
type putOffs struct {
	pieces     []piece // of this turn
	bytes      []byte  // of all pieces, one after the other
	remainders map[*Descriptor]*remainder
}

type piece struct {
	d        *Descriptor // nil: it was sent
	from, to int         // in bytes
}

// remainder is what the kernel has not taken of a piece.
type remainder struct {
	bytes []byte
	shut  bool          // the sending half is to be shut after it
	errno syscall.Errno // with which sending has failed; then there are no bytes
}

// PutOff sends p, PutOffSize bytes at most, to d, one of the loop's sockets, in this turn, or as
// soon as the peer makes room. It counts as sent: the caller hears of an error by d's next calls.
// If there is no room, and d is that of an idle thread, the thread's task is called: it can wait
// for room, for as long as it likes, or be idle again. A thread that waits for input of a shared d
// is woken, as if there were some: it can wait for room as well, see Owed. PutOff returns false,
// and has done nothing, if an earlier piece has not gone out. The caller is on the loop.
func (l *Loop) PutOff(d *Descriptor, p []byte) bool {
	if d.settle() != 0 {
		return false
	}
	o := &l.putOffs
	if len(o.pieces) >= putOffMost {
		l.sendPutOffs()
	}
	from := len(o.bytes)
	o.bytes = append(o.bytes, p...)
	o.pieces = append(o.pieces, piece{d, from, len(o.bytes)})
	d.flags |= putsOff
	return true
}

// sendPutOffs sends all that was put off in this turn.
func (l *Loop) sendPutOffs() {
	o := &l.putOffs
	for i := range o.pieces {
		if p := &o.pieces[i]; p.d != nil {
			l.sendPiece(p)
		}
	}
	clear(o.pieces)
	o.pieces, o.bytes = o.pieces[:0], o.bytes[:0]
}

func (l *Loop) sendPiece(p *piece) {
	d := p.d
	p.d = nil
	d.flags &^= putsOff
	if left, errno := d.sendAll(l.putOffs.bytes[p.from:p.to]); errno != 0 {
		if l.putOffs.remainders == nil {
			l.putOffs.remainders = make(map[*Descriptor]*remainder)
		}
		r := &remainder{bytes: append([]byte(nil), left...)}
		l.putOffs.remainders[d] = r
		d.flags |= owes
		l.refused(d, r, errno)
		if d.flags&shared == 0 {
			Wake(d.thread)
		} else {
			d.edges.move(in, reported)
			l.deliver(d, d.flags.awaited()&in)
		}
	}
}

// sendAll sends p until there is no room, and returns what is left.
func (d *Descriptor) sendAll(p []byte) (left []byte, errno syscall.Errno) {
	for len(p) > 0 && errno == 0 {
		var n int
		n, errno = d.send(p, false)
		p = p[n:]
	}
	return p, errno
}

// refused sees to it that the loop hears of room for r, which d owes. If there will be none, the
// threads that wait for d are woken: their next call returns the error.
func (l *Loop) refused(d *Descriptor, r *remainder, errno syscall.Errno) {
	if errno == unix.EAGAIN {
		if d.edges.armed(out) || !d.edges.dead() && l.ask(d, unix.EPOLL_CTL_MOD, out) == nil {
			return
		}
		errno = unix.EPIPE // no event comes any more
	}
	l.stats.Lost += int64(len(r.bytes))
	r.bytes, r.errno = nil, errno
	d.edges.move(in|out, reported)
	l.deliver(d, d.flags.awaited())
}

// settle sends what was put off for d. It returns EAGAIN if the kernel has no room for all of it,
// or the error with which that has failed.
func (d *Descriptor) settle() syscall.Errno {
	if d.flags&(putsOff|owes) == 0 {
		return 0
	}
	return settle(d)
}

func settle(d *Descriptor) syscall.Errno {
	l := d.owner()
	o := &l.putOffs
	if d.flags&putsOff != 0 {
		l.sendPiece(o.of(d))
	} else if r := o.remainders[d]; r.errno == 0 {
		left, errno := d.sendAll(r.bytes)
		if r.bytes = r.bytes[:copy(r.bytes, left)]; errno != 0 {
			l.refused(d, r, errno)
		} else {
			o.forget(d)
			if r.shut {
				_ = unix.Shutdown(int(d.fd), unix.SHUT_WR)
			}
		}
	}
	switch r := o.remainders[d]; {
	case r == nil:
		return 0
	case r.errno != 0:
		return r.errno
	}
	return unix.EAGAIN
}

// of returns the piece of d, which has one.
func (o *putOffs) of(d *Descriptor) *piece {
	for i := range o.pieces {
		if o.pieces[i].d == d {
			return &o.pieces[i]
		}
	}
	return nil
}

// forget forgets the remainder of d.
func (o *putOffs) forget(d *Descriptor) {
	delete(o.remainders, d)
	d.flags &^= owes
}

// part sends what was put off for d, which is about to leave the loop, as far as there is room.
func (l *Loop) part(d *Descriptor) {
	// see forceShort
	for try := 0; d.settle() == unix.EAGAIN && invariants.Enabled && try < 100; try++ {
	}
}

// lose drops what was put off for d, which leaves the loop.
func (l *Loop) lose(d *Descriptor) {
	o := &l.putOffs
	if d.flags&putsOff != 0 {
		p := o.of(d)
		l.stats.Lost += int64(p.to - p.from)
		p.d = nil
		d.flags &^= putsOff
	}
	if d.flags&owes != 0 {
		l.stats.Lost += int64(len(o.remainders[d].bytes))
		o.forget(d)
	}
}

// Owes reports whether the kernel has had no room for all that was put off for d. Until it has, d's
// calls that write find no room; a Send of nothing finds out. The caller is on the loop.
func (d *Descriptor) Owes() bool { return d.flags&owes != 0 }

// Owed returns how many bytes of what was put off for d the kernel has had no room for. The caller
// is on the loop.
func (d *Descriptor) Owed() int {
	if d.flags&owes == 0 {
		return 0
	}
	return len(d.owner().putOffs.remainders[d].bytes)
}

// Unsent returns how many bytes are on their way to the peer: those that the kernel has, and those
// that the loop is to send. The caller is on the loop.
func (d *Descriptor) Unsent() int {
	n := sysio.Unsent(int(d.fd)) + d.Owed()
	if d.flags&putsOff != 0 {
		p := d.owner().putOffs.of(d)
		n += p.to - p.from
	}
	return n
}

// CloseWrite shuts the sending half of d, a socket, as shutdown(2), behind all that was put off: at
// once, or when there has been room for that. The caller is on the loop.
func (d *Descriptor) CloseWrite() error {
	if d.settle() == unix.EAGAIN {
		d.owner().putOffs.remainders[d].shut = true
		return nil
	}
	return os.NewSyscallError("shutdown", unix.Shutdown(int(d.fd), unix.SHUT_WR))
}

// failed returns the error with which the loop has failed to send what was put off for d; 0: none.
// The kernel tells an error once: it may have told the loop, and then a read sees an orderly end.
func (d *Descriptor) failed() syscall.Errno {
	if d.flags&owes == 0 {
		return 0
	}
	return d.owner().putOffs.remainders[d].errno
}

// owner returns the loop of d, which has one.
func (d *Descriptor) owner() *Loop {
	if s := d.asShared(); s != nil {
		return s.loop
	}
	return d.thread.loop
}
