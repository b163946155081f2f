package loop

import (
	"os"

	"github.com/lwango/lwango/internal/sysio"
	"golang.org/x/sys/unix"
)

// desc is what a loop knows of one descriptor. Every thread with a socket has one inside its record; an awaited
// descriptor gets one of its own for the time of the loan.
//
// Epoll is told of (fd, gen) and gives both back with each event; the generation of a slot's next user differs, so
// an event that was under way when a descriptor was closed and its number reused finds nobody.
type desc struct {
	thread *Thread // who is told
	fd     int32   // -1: none
	gen    uint32
	flags  flags  // state, and the interest that is wanted
	known  uint16 // the interest that epoll was told last
	armed  uint16 // the part of it of which the next event is still to come
}

// exhausted notes that a read or write came to its end, so that of the given event epoll has not reported the next one.
func (d *desc) exhausted(event uint16) { d.armed |= event & d.known }

// add registers d, whose thread, fd and flags are set.
func (l *Loop) add(d *desc) error {
	fd := int(d.fd)
	if fd >= len(l.table) {
		grown := make([]*desc, max(fd+1, 2*len(l.table), 64))
		copy(grown, l.table)
		l.table = grown
	}
	l.gen++
	d.gen = l.gen
	d.known = d.flags.wanted()
	d.armed = d.known
	l.stats.Ctls++
	if e := sysio.EpollCtl(l.epfd, unix.EPOLL_CTL_ADD, fd, edge|uint32(d.known), d.gen); e != 0 {
		return os.NewSyscallError("epoll_ctl", e)
	}
	l.table[fd] = d
	return nil
}

// edge: epoll reports an event once, and not again as long as it lasts. So what nobody waits for does not have to be
// taken out of epoll, or it would be reported for ever; and for what somebody does wait for epoll need not look at the
// socket a second time after each event, which is 4 % of a small request. The price is that an event which was
// reported and not used up is lost, which is what armed is there to know.
const edge = unix.EPOLLET

// arm makes epoll deliver what is wanted. Only a bit that is not armed costs a system call: with it epoll looks at the
// socket anew, for all the bits it knows. A surplus bit costs nothing and stays.
func (l *Loop) arm(d *desc) {
	missing := d.flags.wanted() &^ d.armed
	if missing == 0 {
		return
	}
	if d.flags&hungUp != 0 {
		// Out of epoll for good. Whoever wants to read or write shall do so and get the error.
		if missing&(in|out) != 0 {
			l.ready(d.thread, wokenByEvent)
		}
		return
	}
	l.stats.Ctls++
	d.known |= missing
	d.armed = d.known
	if e := sysio.EpollCtl(l.epfd, unix.EPOLL_CTL_MOD, int(d.fd), edge|uint32(d.known), d.gen); e != 0 {
		// Somebody closed the descriptor under its thread, which learns it from its next read or write.
		d.known, d.armed = 0, 0
		d.flags |= hungUp
		l.ready(d.thread, wokenByEvent)
	}
}

// remove takes d out of epoll. It comes before every close: a description that lives on elsewhere (dup, fork) would
// keep firing, and close would not end that.
func (l *Loop) remove(d *desc) {
	if d.flags&hungUp == 0 {
		l.stats.Ctls++
		_ = sysio.EpollCtl(l.epfd, unix.EPOLL_CTL_DEL, int(d.fd), 0, 0)
	}
	d.known, d.armed = 0, 0
}

// forget frees d's slot, where it is still d's.
func (l *Loop) forget(d *desc) {
	if fd := int(d.fd); fd >= 0 && fd < len(l.table) && l.table[fd] == d {
		l.table[fd] = nil
	}
}

// dispatch acts on one event.
//
//   - What the thread waits for puts it into the run queue.
//   - That the peer left is noted, and told to a thread that waits for something else.
//   - What nobody waits for is forgotten; whoever comes to want it finds it not armed.
//   - After ERR or HUP the descriptor leaves epoll, and its thread does not wait for it any more.
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

	t := d.thread
	if d.flags&lent != 0 {
		if hit != 0 {
			l.ready(t, wokenByEvent)
		}
		return
	}
	if before&finished == 0 && d.flags&finished != 0 {
		t.left()
	}
	if hit != 0 {
		l.ready(t, wokenByEvent)
	}
}
