package loop

import (
	"os"

	"github.com/lwango/lwango/internal/base/sysio"
	"golang.org/x/sys/unix"
)

// Descriptor is what a loop knows of one file descriptor. Every thread with a socket has one inside
// its record. Register makes one, inside a Shared, for a socket that any thread of the loop may
// use. A descriptor that threads await by its bare number has one as long as it is registered.
//
// The loop gives epoll the pair (fd, gen), and each event brings it back. The next user of a slot
// has another gen. So an event that was on its way when a descriptor was closed and its number
// reused finds no thread.
type Descriptor struct {
	thread *Thread // the loop wakes it at events; for a Shared see there
	fd     int32   // -1: none
	gen    uint32  // of the number; without one, the thread's index in Loop.unattached
	flags  flags   // state, and the events that threads wait for
	edges  edges   // the events that epoll is going to report
}

// FD returns the number, -1 if there is none.
func (d *Descriptor) FD() int { return int(d.fd) }

// Gone reports whether the peer was seen to send no more, or to have left altogether. What it sent
// before may still be unread.
func (d *Descriptor) Gone() bool { return d.flags&finished != 0 }

// poll is for a wait whose limit has passed. It reports whether one of the events has come all the
// same, and notes the events as if the loop had seen them. The loop polls for events before it
// reads the clock, so if the process was stopped in between, or had no processor, the loop finds
// first that the limit has passed; and an overloaded loop takes its events one by one.
func (d *Descriptor) poll(events uint16) bool {
	if d.fd < 0 {
		return false
	}
	if d.edges.armed(events) {
		there := sysio.Ready(int(d.fd), events)
		if there&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
			there |= events // as dispatch has it: a read or a write tells more
		}
		d.edges.move(there&events, reported)
	}
	return !d.edges.armed(events)
}

// add registers d, whose thread, fd and flags are set, and asks epoll for the events.
func (l *Loop) add(d *Descriptor, events uint16) error {
	l.gen++
	d.gen = l.gen
	d.edges = edges{}
	if e := l.epollCtl(d, events); e != nil {
		return e
	}
	l.enterTable(d) // only now: fd may be any number until epoll has taken it
	return nil
}

// enterTable gives d the slot of its number, which is an open descriptor's.
func (l *Loop) enterTable(d *Descriptor) {
	fd := int(d.fd)
	if fd >= len(l.table) {
		grown := make([]*Descriptor, max(fd+1, len(l.table)+len(l.table)/4, 64))
		copy(grown, l.table)
		l.table = grown
	}
	if old := l.table[fd]; old != nil {
		// Epoll did not know this descriptor. So the old one was closed under its users, and its
		// number was given to this one.
		l.evict(old)
	}
	l.table[fd] = d
}

// evict takes the slot away from d, and wakes the threads that wait for d.
func (l *Loop) evict(d *Descriptor) {
	l.forget(d)
	d.fd = -1
	d.edges.move(in|out, removed)
	d.flags |= finished
	if d.flags&shared == 0 { // its thread lives on without a descriptor
		l.addUnattached(d.thread)
		if l.stop.stopping {
			d.thread.notify() // wakeForStop goes by descriptors, and would not find it any more
		}
	}
	l.deliver(d, d.flags.awaited())
}

// arm makes epoll report the events of d that threads wait for. Only an event that is not armed
// costs a system call: then epoll looks at the socket anew, for all events that it was asked for.
// An event that is armed and not awaited costs nothing and stays armed. arm returns true if no
// event can come, because the descriptor is out of epoll: then the thread reads or writes, and that
// call returns the error.
func (l *Loop) arm(d *Descriptor) (over bool) {
	events := d.flags.awaited()
	if d.edges.armed(events) {
		return false
	}
	if d.edges.dead() {
		return true
	}
	if d.edges.outside() {
		l.enterEpoll(d, true)
		return d.edges.dead()
	}
	if l.epollCtl(d, events) != nil {
		// The descriptor was closed under its thread, which learns that from its next read or
		// write.
		d.edges.move(in|out, removed)
		return true
	}
	return false
}

// enterEpoll makes epoll report the events of a descriptor of AttachReady, before its thread waits:
// whether its client leaves, at least. waits says that the thread goes on at an event that it
// awaits. If epoll has no room for it, the socket is shut, which its thread learns from its next
// read or write.
func (l *Loop) enterEpoll(d *Descriptor, waits bool) {
	events := d.flags.awaited()
	unread := d.Unread() && !(waits && events&in != 0)
	if err := l.epollCtl(d, events|in); err != nil {
		l.log.Error("loop: connection closed, epoll does not take it", "error", err)
		_ = unix.Shutdown(int(d.fd), unix.SHUT_RDWR)
		d.edges.move(in|out, removed)
	} else if unread {
		d.edges.move(in, reported) // epoll tells of it in the next turn only
	}
}

// epollCtl asks epoll for the events of d, besides those that it was asked for before. All calls of
// epoll_ctl that ask for events are here.
func (l *Loop) epollCtl(d *Descriptor, events uint16) error {
	op := unix.EPOLL_CTL_MOD
	if d.edges.outside() {
		op = unix.EPOLL_CTL_ADD
	}
	mask := uint32(d.edges.known()|events) | unix.EPOLLET
	if d.flags&rawFD == 0 {
		mask |= rdhup
	}
	l.stats.Ctls++
	if e := sysio.EpollCtl(l.epfd, op, int(d.fd), mask, d.gen); e != 0 {
		return os.NewSyscallError("epoll_ctl", e)
	}
	d.edges.move(events, requested)
	d.edges.move((in|out)&^events, otherRequested)
	return nil
}

// remove takes d out of epoll. It comes before every close, except of a sole socket (see
// CloseDescriptor): if the description lives on elsewhere (dup, fork), close does not take it out
// of epoll, and its events go on.
func (l *Loop) remove(d *Descriptor) {
	if !d.edges.dead() && !d.edges.outside() {
		l.stats.Ctls++
		_ = sysio.EpollCtl(l.epfd, unix.EPOLL_CTL_DEL, int(d.fd), 0, 0)
	}
	d.edges.move(in|out, removed)
}

// forget frees d's slot, unless another Descriptor has it by now, and drops what was put off for d.
func (l *Loop) forget(d *Descriptor) {
	if d.flags&listed != 0 {
		l.unlist(d.thread)
	}
	l.dropPutOff(d)
	if l.lookup(int(d.fd)) == d {
		l.table[d.fd] = nil
	}
}

// lookup returns the Descriptor that has the slot of fd, or nil.
func (l *Loop) lookup(fd int) *Descriptor {
	if fd < 0 || fd >= len(l.table) {
		return nil
	}
	return l.table[fd]
}

// dispatch acts on one event.
//
//   - An event that a thread waits for puts the thread into the run queue.
//   - If the peer has left, the record notes that, and a thread that waits for sources is woken.
//   - An event that no thread waits for is dropped. A thread that wants it later finds it not
//     armed.
//   - If there is room to write, what was put off is sent first.
//   - After ERR or HUP the descriptor leaves epoll, and no thread can wait for it any more.
func (l *Loop) dispatch(e *unix.EpollEvent) {
	fd := int(e.Fd)
	if fd >= len(l.table) || l.table[fd] == nil || l.table[fd].gen != uint32(e.Pad) {
		return // stale: the descriptor was closed, and its description lives on elsewhere
	}
	d, events := l.table[fd], uint16(e.Events)
	d.edges.move(events, reported)
	awaited := d.flags.awaited()
	hit := events & awaited
	before := d.flags

	if events&rdhup != 0 {
		d.flags |= finished
	}
	if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		l.remove(d)
		d.flags |= finished
		hit = awaited
	}
	if d.flags&hasRemainder != 0 && events&(out|unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		_ = d.flushPutOff()
	}
	if d.flags&shared == 0 && before&finished == 0 && d.flags&finished != 0 {
		d.thread.peerLeft()
	}
	if hit != 0 {
		l.deliver(d, hit)
	}
}

// deliver wakes the threads that wait for one of the events.
func (l *Loop) deliver(d *Descriptor, events uint16) {
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

// wake puts t into the run queue, unless t is running: a thread may take its own descriptor out of
// the loop.
func (l *Loop) wake(t *Thread) {
	if t != l.current {
		l.ready(t, byEvent)
	}
}
