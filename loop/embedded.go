package loop

// Begin makes t, the zero Thread or one of the loop's that has ended, a thread without a
// descriptor, which runs soon (see WakeThisTurn). t may be a part of a larger record, and be used
// again when task.Ended was called. A source that t was waiting for before may notify it for
// nothing. task.Run returns Abort. On a loop whose threads were killed it ends without having
// begun. Begin is called on the loop.
func (l LoopLayer) Begin(t *Thread, task Task) {
	t.reset()
	if l.initUnattached(t, task) {
		l.enqueue(&l.turn, t, byEvent)
	}
}

// WakeThisTurn is Wake that does not wait for the next turn: t runs after the threads of the
// present one, without a poll for events in between. It is for threads that pass the input of one
// event on to each other. A thread that calls it for whatever it likes would keep the loop from its
// other threads.
func (t ThreadLayer) WakeThisTurn() {
	if t.co == nil {
		t.loop.enqueue(&t.loop.turn, t.Thread, byEvent)
	}
}

// Task returns the task of t.
func (t ThreadLayer) Task() Task { return t.task }

// EndKeepWaiting ends KeepWaiting of a thread whose client has left, or takes no more: the thread
// is treated as one whose client has left. It is called on the loop.
func (t ThreadLayer) EndKeepWaiting() {
	if t.own.flags&(keepWaiting|ended) == keepWaiting {
		t.own.flags = t.own.flags&^keepWaiting | finished
		t.peerLeft()
	}
}

// SetClientGone says that the client of t, which has no descriptor, has left. The loop does what it
// does when a client's own descriptor reports that: Gone is true, waits return, and the task's
// ClientGone is called. It is called on the loop.
func (t ThreadLayer) SetClientGone() {
	if t.own.flags&(finished|ended) == 0 {
		t.own.flags |= finished
		t.peerLeft()
	}
}
