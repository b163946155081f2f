package main

import (
	"net"
	"sync"
	"time"
)

// A line leads to a server far away: what either side sends arrives later, and no faster than the
// line carries it. It is what netem does between namespaces, for which not every kernel has the
// module and not every user the right.
type line struct {
	net.Listener
	to        string
	delay     time.Duration // each way
	perSecond float64       // bytes, each way
}

// lineSlack is how much a line takes before it has room: a router's queue, and the sockets'.
const lineSlack = 256 << 10

func newLine(to string, delay time.Duration, perSecond float64) *line {
	l := &line{must(net.Listen("tcp", "127.0.0.1:0")), to, delay, perSecond}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.DialTimeout("tcp", to, verifyLimit)
			if err != nil {
				near.Close()
				continue
			}
			for _, conn := range []net.Conn{near, far} {
				conn.(*net.TCPConn).SetReadBuffer(lineSlack)
				conn.(*net.TCPConn).SetWriteBuffer(lineSlack)
			}
			go l.carry(far, near)
			go l.carry(near, far)
		}
	}()
	return l
}

// carry takes what comes from one side at the line's rate, and gives it to the other in time. Where
// the other side takes nothing, the line takes no more than it carries within the delay.
func (l *line) carry(to, from net.Conn) {
	const size = 16 << 10
	type piece struct {
		p   []byte
		due time.Time
	}
	full := int(l.perSecond*l.delay.Seconds())/size + 2
	under, spare := make(chan piece, full), sync.Pool{New: func() any { return new([size]byte) }}
	go func() {
		defer close(under)
		for free := time.Now(); ; {
			p := spare.Get().(*[size]byte)
			n, err := from.Read(p[:])
			if err != nil {
				return
			}
			if now := time.Now(); free.Before(now) {
				free = now
			}
			free = free.Add(time.Duration(float64(n) / l.perSecond * float64(time.Second)))
			under <- piece{p[:n], free.Add(l.delay)}
			if ahead := time.Until(free); ahead > time.Millisecond { // sleeps are too long for less
				time.Sleep(ahead)
			}
		}
	}()
	for piece := range under {
		time.Sleep(time.Until(piece.due))
		if _, err := to.Write(piece.p); err != nil {
			break
		}
		spare.Put((*[size]byte)(piece.p[:size]))
	}
	to.Close()
	from.Close()
	for range under {
	}
}
