package loop

// ThreadLayer is a Thread with what layers and protocols do to it besides: they change its Task,
// wake it, end it while it is idle, or learn of its client. It is valid as long as the Thread.
type ThreadLayer struct{ *Thread }

// Layer returns what a layer, or the code of a protocol, may do to the thread.
func (t *Thread) Layer() ThreadLayer { return ThreadLayer{t} }

// LoopLayer is a Loop with what layers and protocols need of it besides: they keep its records of
// sockets, run something beside it, or look at its threads. It is valid as long as the Loop.
type LoopLayer struct{ *Loop }

// Layer returns what a layer, or the code of a protocol, may do with the loop.
func (l *Loop) Layer() LoopLayer { return LoopLayer{l} }
