package loop

import (
	"os"

	"github.com/lwango/lwango/internal/sysio"
	"golang.org/x/sys/unix"
)

// Descriptor is what a loop knows of one file descriptor. Every thread with a socket has one inside its record; Open
// makes one, inside a Shared, for a socket that any thread of the loop may use; and one that is awaited by its bare
// number gets one for the time of the loan.
//
// Epoll is told of (fd, gen) and gives both back with each event; the generation of a slot's next user differs, so
// an event that was under way when a descriptor was closed and its number reused finds nobody.
type Descriptor struct {
	thread *Thread // is told of events; of a Shared see there
	fd     int32   // -1: none
	gen    uint32
	flags  flags  // state, and the interest that is wanted
	known  uint16 // the interest that epoll was told last
	armed  uint16 // the part of it of which the next event is still to come
}

// FD returns the number, -1 if there is none.
func (d *Descriptor) FD() int { return int(d.fd) }

// Gone reports that the peer was seen to send no more, or to have left altogether. What it sent before may still be
// unread.
func (d *Descriptor) Gone() bool { return d.flags&finished != 0 }

// exhausted notes that a read or write came to its end, so that of the given event epoll has not reported the next one.
func (d *Descriptor) exhausted(event uint16) { d.armed |= event & d.known }

// fired reports that one of the events has come since they were armed, or that there will be none.
func (d *Descriptor) fired(events uint16) bool {
	return events&^d.armed != 0 || d.flags&hungUp != 0
}

// add registers d, whose thread, fd and flags are set.
func (l *Loop) add(d *Descriptor) error {
	fd := int(d.fd)
	l.gen++
	d.gen = l.gen
	d.known = d.flags.wanted()
	d.armed = d.known
	l.stats.Ctls++
	if e := sysio.EpollCtl(l.epfd, unix.EPOLL_CTL_ADD, fd, edge|uint32(d.known), d.gen); e != 0 {
		return os.NewSyscallError("epoll_ctl", e)
	}
	if fd >= len(l.table) { // only now: a number that is no descriptor's may be of any size
		grown := make([]*Descriptor, max(fd+1, 2*len(l.table), 64))
		copy(grown, l.table)
		l.table = grown
	}
	if old := l.table[fd]; old != nil {
		// Epoll did not know the descriptor: it was closed under its last user, and the number is another's now.
		l.evict(old)
	}
	l.table[fd] = d
	return nil
}

// evict takes d's slot away. Whoever waits for d is told.
func (l *Loop) evict(d *Descriptor) {
	l.forget(d)
	d.fd = -1
	d.known, d.armed = 0, 0
	d.flags |= finished | hungUp
	if d.flags&shared == 0 { // a thread lives on without its descriptor
		l.detached[d.thread] = struct{}{}
	}
	l.wakeWaiters(d, d.flags.wanted())
}

// edge: epoll reports an event once, and not again as long as it lasts. So what nobody waits for does not have to be
// taken out of epoll, or it would be reported for ever; and for what somebody does wait for epoll need not look at the
// socket a second time after each event, which is 4 % of a small request. The price is that an event which was
// reported and not used up is lost, which is what armed is there to know.
const edge = unix.EPOLLET

// arm makes epoll deliver what is wanted. Only a bit that is not armed costs a system call: with it epoll looks at the
// socket anew, for all the bits it knows. A surplus bit costs nothing and stays. It reports that there is nothing to
// wait for: the descriptor is out of epoll, and whoever wants to read or write shall do so and get the error.
func (l *Loop) arm(d *Descriptor) (over bool) {
	missing := d.flags.wanted() &^ d.armed
	if missing == 0 {
		return false
	}
	if d.flags&hungUp != 0 {
		return missing&(in|out) != 0
	}
	if l.modify(d, d.known|missing) != nil {
		// Somebody closed the descriptor under its thread, which learns it from its next read or write.
		d.known, d.armed = 0, 0
		d.flags |= hungUp
		return true
	}
	return false
}

func (l *Loop) modify(d *Descriptor, known uint16) error {
	l.stats.Ctls++
	if e := sysio.EpollCtl(l.epfd, unix.EPOLL_CTL_MOD, int(d.fd), edge|uint32(known), d.gen); e != 0 {
		return os.NewSyscallError("epoll_ctl", e)
	}
	d.known, d.armed = known, known
	return nil
}

// remove takes d out of epoll. It comes before every close: a description that lives on elsewhere (dup, fork) would
// keep firing, and close would not end that.
func (l *Loop) remove(d *Descriptor) {
	if d.flags&hungUp == 0 {
		l.stats.Ctls++
		_ = sysio.EpollCtl(l.epfd, unix.EPOLL_CTL_DEL, int(d.fd), 0, 0)
	}
	d.known, d.armed = 0, 0
}

// forget frees d's slot, where it is still d's.
func (l *Loop) forget(d *Descriptor) {
	if d.flags&listed != 0 {
		l.unlist(d.thread)
	}
	if l.lookup(int(d.fd)) == d {
		l.table[d.fd] = nil
	}
}

// lookup returns who has the slot of a descriptor, or nil.
func (l *Loop) lookup(fd int) *Descriptor {
	if fd < 0 || fd >= len(l.table) {
		return nil
	}
	return l.table[fd]
}

// dispatch acts on one event.
//
//   - What a thread waits for puts it into the run queue.
//   - That the peer left is noted, and told to a thread that waits for something else.
//   - What nobody waits for is forgotten; whoever comes to want it finds it not armed.
//   - After ERR or HUP the descriptor leaves epoll, and nobody waits for it any more.
func (l *Loop) dispatch(e *unix.EpollEvent) {
	fd := int(e.Fd)
	if fd >= len(l.table) || l.table[fd] == nil || l.table[fd].gen != uint32(e.Pad) {
		return // stale: the descriptor was closed under its thread, and its description lives on elsewhere
	}
	d, events := l.table[fd], uint16(e.Events)
	d.armed &^= events
	wanted := d.flags.wanted()
	hit := events & wanted & (in | out)
	before := d.flags

	if events&rdhup != 0 {
		d.flags = (d.flags | finished) &^ mask(rdhup)
	}
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		l.remove(d)
		d.flags = (d.flags | finished | hungUp) &^ mask(rdhup)
		hit |= wanted & (in | out)
	}
	if d.flags&shared == 0 && before&finished == 0 && d.flags&finished != 0 {
		d.thread.left()
	}
	if hit != 0 {
		l.wakeWaiters(d, hit)
	}
}

// wakeWaiters wakes the threads that wait for one of the events.
func (l *Loop) wakeWaiters(d *Descriptor, events uint16) {
	reader, writer := d.thread, d.thread
	if s := d.asShared(); s != nil {
		writer = s.writer
	}
	if events&in != 0 {
		l.wake(reader)
	}
	if events&out != 0 {
		l.wake(writer)
	}
}

// wake lets t go on, unless it is the one that runs: a thread may take its own descriptor out of the loop.
func (l *Loop) wake(t *Thread) {
	if t != l.current {
		l.ready(t, wokenByEvent)
	}
}
