package loop

// Broadcast is an event of one loop that many of its threads wait for, such as a message to all
// members of a room. If thousands of threads were notified at once, all other work would wait until
// the last of them has run. So the loop notifies a few threads of each Broadcast, one Broadcast
// after the other, until a share of its turn is used up, and the rest in the next turn, after it
// has polled for events. So a Broadcast to a few threads passes one to thousands, and so does a
// request. An idle thread whose Task has a method Notified may need no coroutine.
type Broadcast struct {
	// Next returns the next thread that is to be notified, or nil if none is left. It is called on the
	// loop. It must not wait.
	Next func() *Thread

	begun bool // it is in the loop's list
	then  *Broadcast
}

// broadcasts is a list of Broadcasts, first in, first out.
type broadcasts struct{ first, last *Broadcast }

func (rs *broadcasts) push(r *Broadcast) {
	if rs.last == nil {
		rs.first = r
	} else {
		rs.last.then = r
	}
	rs.last = r
}

func (rs *broadcasts) pop() *Broadcast {
	r := rs.first
	if rs.first, r.then = r.then, nil; rs.first == nil {
		rs.last = nil
	}
	return r
}

// Begin notifies the threads that r.Next returns, soon. It is called on the loop. It does nothing
// if r has begun and is not over.
func (r *Broadcast) Begin(l *Loop) {
	if !r.begun {
		r.begun = true
		l.broadcasts.push(r)
	}
}

// perBroadcast is how many threads of a Broadcast run before those of the next.
const perBroadcast = clockEvery

// runBroadcasts runs the threads of Broadcasts. They have their own share of the turn, so they do
// not delay other threads, and other threads do not delay them.
func (l *Loop) runBroadcasts() {
	if l.broadcasts.first == nil {
		return
	}
	rest := l.turn // not empty on an overloaded loop
	l.turn = queue{}
	for l.share.begin(); l.broadcasts.first != nil && !l.share.over; {
		r := l.broadcasts.pop()
		var t *Thread
		for range perBroadcast {
			if t = r.Next(); t == nil {
				break
			}
			if !t.handleNotification() {
				t.notifyIn(&l.turn, byNotify)
			} else if l.share.count() {
				break
			}
		}
		if r.begun = t != nil; r.begun {
			l.broadcasts.push(r)
		}
		l.runTurn()
	}
	l.turn.append(&rest) // threads that were notified here and have not run come first
}
