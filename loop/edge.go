package loop

// edges is what epoll is going to report of a descriptor: one state for each direction. Which
// directions a thread waits for stands in the flags. All moves between the states are in the table
// below.
//
// With edge triggering, epoll reports each event once. So an event that no thread waits for need
// not be disarmed, as it would have to be if epoll repeated it for ever. And after an event that a
// thread does wait for, epoll need not look at the socket a second time, which costs 4 % of a small
// request. The price is that an event which was delivered but not consumed is lost: its direction
// has fired, and a wait for it must ask epoll anew.
//
// RDHUP has no state. Epoll reports it of every socket that is not a raw descriptor, and the
// flag finished notes it.
type edges struct{ read, write edge }

// edge is the state of one direction.
type edge uint8

const (
	unknown edge = iota // epoll was not asked for it
	drained             // nor for this one, and a read or write has found the end of it
	armed               // epoll was asked, and the next event is still to come
	fired               // an event came, and no read or write has found the end of it yet
	dead                // the descriptor is out of epoll, and no event comes any more
	numEdges
)

// move is what changes the state of a direction.
type move uint8

const (
	requested      move = iota // epoll_ctl asked for this direction
	otherRequested             // epoll_ctl asked for the other direction, and looked at both anew
	emptied                    // a read found no more input, or a write no more room
	reported                   // epoll_wait brought the event, or poll(2) did
	removed                    // the descriptor left epoll: it hung up, or is closed
	numMoves
)

// moves has a row for each move, and in it the state that follows each state.
//
// Data that arrives between a read that finds nothing and the wait is not lost. If the direction is
// armed, epoll reports it. If it has fired, the read has armed it, and epoll's edge comes with the
// data. If it is unknown or drained, asking makes epoll look at the socket.
var moves = [numMoves][numEdges]edge{
	//         unknown  drained  armed  fired  dead
	requested:      {armed, armed, armed, armed, dead},
	otherRequested: {unknown, drained, armed, armed, dead},
	emptied:        {drained, drained, armed, armed, dead},
	reported:       {unknown, unknown, fired, fired, dead},
	removed:        {dead, dead, dead, dead, dead},
}

// move moves the directions that are among the events, IN and OUT.
func (e *edges) move(events uint16, m move) {
	if events&in != 0 {
		e.read = moves[m][e.read]
	}
	if events&out != 0 {
		e.write = moves[m][e.write]
	}
}

// armed reports whether all of the events, IN and OUT, are still to come.
func (e *edges) armed(events uint16) bool {
	return (events&in == 0 || e.read == armed) && (events&out == 0 || e.write == armed)
}

// dead reports whether the descriptor is out of epoll, which both directions are at once.
func (e *edges) dead() bool { return e.read == dead }

// outside reports whether epoll was asked for nothing of the descriptor yet.
func (e *edges) outside() bool { return e.read < armed && e.write < armed }

// known returns the events that epoll was asked for.
func (e *edges) known() (events uint16) {
	if e.read == armed || e.read == fired {
		events = in
	}
	if e.write == armed || e.write == fired {
		events |= out
	}
	return events
}
