package loop

import (
	"os"
	"syscall"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/base/sysio"
	"golang.org/x/sys/unix"
)

// The last sends of threads before they wait can go out together. Each send(2) runs through some 40
// KiB of the kernel's code, which then stays in the processor's cache for the next one; and the
// process at the other end, which takes less time for each message than this server, is still awake
// when the next one comes. That makes a small request 4 % cheaper, and a proxied one 6 %.
//
// In a short turn nothing is worth that. Each piece would only wait for the other threads, and its
// receiver with it: four workers of PHP have nothing else to do until their requests come.
//
// Pieces that were put off go out after the threads that are ready in this turn have run, or when
// there are maxPieces of them. A thread that computes for long delays them, as it delays all else.
//
// A piece belongs to its descriptor until the kernel has all of it. The descriptor's calls that
// write, shut or close send it first. If the kernel refuses a part, the loop keeps this remainder,
// and sends it when there is room; until then these calls find no room either. So nothing overtakes
// the piece, and the users of a socket need not know of it.

const (
	// PutOffSize is how many bytes are worth putting off. More of them would cost more to copy.
	PutOffSize = 4 << 10

	maxPieces = 64 // pieces

	fewEvents = 8 // a turn that begins with fewer is short
)

// putOffs is what a loop is still to send for its descriptors. A descriptor has one piece (the flag
// hasPiece), or a remainder of it (hasRemainder), or neither.
type putOffs struct {
	pieces     []piece // of this turn
	bytes      []byte  // of all pieces, one after the other
	short      bool    // this turn is
	always     bool    // see PutOffAlways
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
// soon as the peer makes room. p counts as sent: d's next calls return an error of the send. If
// there is no room, and d is an idle thread's own, the thread's task is called: it can wait for
// room, for as long as it likes, or be idle again. A thread that waits for input of a shared d is
// woken, as if there were input: it can wait for room as well, see Remainder. PutOff returns false,
// and has done nothing, if an earlier piece is not sent yet. The caller is on the loop.
func (l LoopLayer) PutOff(d *Descriptor, p []byte) bool {
	if d.flushPutOff() != 0 {
		return false
	}
	o := &l.putOffs
	if len(o.pieces) >= maxPieces {
		l.sendPutOffs()
	}
	from := len(o.bytes)
	o.bytes = append(o.bytes, p...)
	o.pieces = append(o.pieces, piece{d, from, len(o.bytes)})
	d.flags |= hasPiece
	return true
}

// MayPutOff reports whether PutOff is worth its while in this turn of the loop. The caller is on
// the loop.
func (l LoopLayer) MayPutOff() bool {
	return !l.putOffs.short || l.overloaded || l.putOffs.always || invariants.Enabled
}

// PutOffAlways makes MayPutOff return true. It is for tests of what was put off. The caller is on
// the loop.
func (l LoopLayer) PutOffAlways() { l.putOffs.always = true }

// sendPutOffs sends all pieces that were put off in this turn.
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
	d.flags &^= hasPiece
	if left, errno := d.sendAll(l.putOffs.bytes[p.from:p.to]); errno != 0 {
		if l.putOffs.remainders == nil {
			l.putOffs.remainders = make(map[*Descriptor]*remainder)
		}
		r := &remainder{bytes: append([]byte(nil), left...)}
		l.putOffs.remainders[d] = r
		d.flags |= hasRemainder
		l.awaitRoom(d, r, errno)
		if d.flags&shared == 0 {
			d.thread.Layer().Wake()
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

// awaitRoom arms epoll for room for r, d's remainder. If there will be no room, it wakes the
// threads that wait for d: their next call returns the error.
func (l *Loop) awaitRoom(d *Descriptor, r *remainder, errno syscall.Errno) {
	if errno == unix.EAGAIN {
		if d.edges.armed(out) || !d.edges.dead() && l.epollCtl(d, out) == nil {
			return
		}
		errno = unix.EPIPE // no event comes any more
	}
	l.stats.Lost += int64(len(r.bytes))
	r.bytes, r.errno = nil, errno
	d.edges.move(in|out, reported)
	l.deliver(d, d.flags.awaited())
}

// flushPutOff sends what was put off for d. It returns EAGAIN if the kernel has no room for all of
// it, or the error of the send.
func (d *Descriptor) flushPutOff() syscall.Errno {
	if d.flags&(hasPiece|hasRemainder) == 0 {
		return 0
	}
	return flushPutOff(d)
}

func flushPutOff(d *Descriptor) syscall.Errno {
	l := d.owner()
	o := &l.putOffs
	if d.flags&hasPiece != 0 {
		l.sendPiece(o.pieceOf(d))
	} else if r := o.remainders[d]; r.errno == 0 {
		left, errno := d.sendAll(r.bytes)
		if r.bytes = r.bytes[:copy(r.bytes, left)]; errno != 0 {
			l.awaitRoom(d, r, errno)
		} else {
			o.removeRemainder(d)
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

// pieceOf returns the piece of d, which has one.
func (o *putOffs) pieceOf(d *Descriptor) *piece {
	for i := range o.pieces {
		if o.pieces[i].d == d {
			return &o.pieces[i]
		}
	}
	return nil
}

// removeRemainder removes the remainder of d.
func (o *putOffs) removeRemainder(d *Descriptor) {
	delete(o.remainders, d)
	d.flags &^= hasRemainder
}

// flushBeforeRemove sends what was put off for d as far as there is room, before d leaves the loop.
func (l *Loop) flushBeforeRemove(d *Descriptor) {
	// see forceShort
	for try := 0; d.flushPutOff() == unix.EAGAIN && invariants.Enabled && try < 100; try++ {
	}
}

// dropPutOff drops what was put off for d, which leaves the loop.
func (l *Loop) dropPutOff(d *Descriptor) {
	o := &l.putOffs
	if d.flags&hasPiece != 0 {
		p := o.pieceOf(d)
		l.stats.Lost += int64(p.to - p.from)
		p.d = nil
		d.flags &^= hasPiece
	}
	if d.flags&hasRemainder != 0 {
		l.stats.Lost += int64(len(o.remainders[d].bytes))
		o.removeRemainder(d)
	}
}

// HasRemainder reports whether the kernel had no room for all that was put off for d. While d has a
// remainder, its calls that write find no room; a Send of an empty slice tries to send it. The
// caller is on the loop.
func (d *Descriptor) HasRemainder() bool { return d.flags&hasRemainder != 0 }

// Remainder returns how many bytes of what was put off for d the kernel had no room for. The caller
// is on the loop.
func (d *Descriptor) Remainder() int {
	if d.flags&hasRemainder == 0 {
		return 0
	}
	return len(d.owner().putOffs.remainders[d].bytes)
}

// Unsent returns how many bytes the peer has not acknowledged: those that the kernel has, and those
// that the loop is to send. The caller is on the loop.
func (d *Descriptor) Unsent() int {
	n := sysio.Unsent(int(d.fd)) + d.Remainder()
	if d.flags&hasPiece != 0 {
		p := d.owner().putOffs.pieceOf(d)
		n += p.to - p.from
	}
	return n
}

// CloseWrite shuts the sending half of the socket d, as shutdown(2), once all that was put off is
// sent: now, or when there is room. The caller is on the loop.
func (d *Descriptor) CloseWrite() error {
	if d.flushPutOff() == unix.EAGAIN {
		d.owner().putOffs.remainders[d].shut = true
		return nil
	}
	return os.NewSyscallError("shutdown", unix.Shutdown(int(d.fd), unix.SHUT_WR))
}

// sendErrno returns the error of the loop's send of what was put off for d; 0: none. The kernel
// reports an error once. If the loop's send has got it, a read sees an orderly end.
func (d *Descriptor) sendErrno() syscall.Errno {
	if d.flags&hasRemainder == 0 {
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
