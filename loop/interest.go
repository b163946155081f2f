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
	armed  uint32 // the interest that epoll was told last
}

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
	events := d.flags.wanted()
	l.stats.Ctls++
	if e := sysio.EpollCtl(l.epfd, unix.EPOLL_CTL_ADD, fd, events, d.gen); e != 0 {
		return os.NewSyscallError("epoll_ctl", e)
	}
	d.armed = events
	l.table[fd] = d
	return nil
}

// arm makes epoll deliver what is wanted. Only a missing bit costs a system call; a surplus one stays until it
// makes itself felt, since most often it is wanted again before that.
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
	l.modify(d, d.armed|missing)
}

func (l *Loop) modify(d *desc, events uint32) {
	l.stats.Ctls++
	d.armed = events
	if e := sysio.EpollCtl(l.epfd, unix.EPOLL_CTL_MOD, int(d.fd), events, d.gen); e != 0 {
		// Somebody closed the descriptor under its thread, which learns it from its next read or write.
		d.armed = 0
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
	d.armed = 0
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
//   - What is armed but not wanted is disarmed by one MOD, or it would be reported for ever: epoll is
//     level-triggered. ERR and HUP cannot be disarmed, so the descriptor leaves epoll.
func (l *Loop) dispatch(e *unix.EpollEvent) {
	fd := int(e.Fd)
	if fd >= len(l.table) || l.table[fd] == nil || l.table[fd].gen != uint32(e.Pad) {
		return // stale: the descriptor was closed in this turn
	}
	d, events := l.table[fd], e.Events
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
		return
	}
	if surplus := events & d.armed &^ d.flags.wanted(); surplus != 0 {
		l.modify(d, d.armed&^surplus)
	}
}
