package loop

import (
	"os"

	"github.com/lwango/lwango/internal/base/sysio"
	"golang.org/x/sys/unix"
)

// Descriptor is what a loop knows of one file descriptor. Every thread with a socket has one inside
// its record. Open makes one, inside a Shared, for a socket that any thread of the loop may use. A
// descriptor that threads await by its bare number has one as
// long as it is registered.
//
// The loop gives epoll the pair (fd, gen), and each event brings it back. The next user of a slot
// has another gen. So an event that was on its way when a descriptor was closed and its number
// reused finds no thread.
type Descriptor struct {
	thread *Thread // that is told of events; for a Shared see there
	fd     int32   // -1: none
	gen    uint32  // of the number; without one, where the thread stands in Loop.detached
	flags  flags   // state, and the events that threads wait for
	edges  edges   // the events that epoll is going to report
}

// FD returns the number, -1 if there is none.
func (d *Descriptor) FD() int { return int(d.fd) }

// Gone reports whether the peer was seen to send no more, or to have left altogether. What it sent
// before may still be unread.
func (d *Descriptor) Gone() bool { return d.flags&finished != 0 }

// poll is for a wait whose time is over. It reports whether one of the events is there all the
// same, and notes them as if the loop had seen them. The loop polls for events before it reads
// the clock, so a process that was stopped in between, or that had no processor, finds the time
// over first; and a loop that is overloaded takes its events one by one.
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
	fd := int(d.fd)
	l.gen++
	d.gen = l.gen
	d.edges = edges{}
	if e := l.ask(d, unix.EPOLL_CTL_ADD, events); e != nil {
		return e
	}
	if fd >= len(l.table) { // only now: fd may be any number until epoll has taken it
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
	return nil
}

// evict takes the slot away from d, and wakes the threads that wait for d.
func (l *Loop) evict(d *Descriptor) {
	l.forget(d)
	d.fd = -1
	d.edges.move(in|out, removed)
	d.flags |= finished
	if d.flags&shared == 0 { // its thread lives on without a descriptor
		l.detach(d.thread)
		if l.stop.stopping {
			d.thread.notify() // wakeForStop goes by descriptors, and would not find it any more
		}
	}
	l.deliver(d, d.flags.awaited())
}

// arm makes epoll report what threads wait for. Only an event that is not armed costs a system
// call: then epoll looks at the socket anew, for all the events that it knows. An event that is
// armed and not awaited costs nothing and stays. arm reports whether there is nothing to wait for,
// because the descriptor is out of epoll: then the thread shall read or write, and gets the error
// from that call.
func (l *Loop) arm(d *Descriptor) (over bool) {
	events := d.flags.awaited()
	if d.edges.armed(events) {
		return false
	}
	if d.edges.dead() {
		return true
	}
	if l.ask(d, unix.EPOLL_CTL_MOD, events) != nil {
		// The descriptor was closed under its thread, which learns that from its next read or
		// write.
		d.edges.move(in|out, removed)
		return true
	}
	return false
}

// ask asks epoll for the events of d, beside those that epoll knows already. op is EPOLL_CTL_ADD or
// EPOLL_CTL_MOD. It is the only way into epoll.
func (l *Loop) ask(d *Descriptor, op int, events uint16) error {
	mask := uint32(d.edges.known()|events) | unix.EPOLLET
	if d.flags&rawFD == 0 {
		mask |= rdhup
	}
	l.stats.Ctls++
	if e := sysio.EpollCtl(l.epfd, op, int(d.fd), mask, d.gen); e != 0 {
		return os.NewSyscallError("epoll_ctl", e)
	}
	d.edges.move(events, requested)
	d.edges.move((in|out)&^events, besides)
	return nil
}

// remove takes d out of epoll. It comes before every close, except of a sole socket (see
// CloseDescriptor): if the description lives on elsewhere (dup, fork), close does not take it out
// of epoll, and its events go on.
func (l *Loop) remove(d *Descriptor) {
	if !d.edges.dead() {
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
	l.lose(d)
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
//   - That the peer has left is noted. A thread that waits for something else is told.
//   - An event that no thread waits for is dropped. A thread that wants it later finds it not
//     armed.
//   - Room to write is first for what was put off.
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
	if d.flags&owes != 0 && events&(out|unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		_ = d.settle()
	}
	if d.flags&shared == 0 && before&finished == 0 && d.flags&finished != 0 {
		d.thread.left()
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
		l.ready(t, ByEvent)
	}
}
