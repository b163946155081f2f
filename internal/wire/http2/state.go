package http2

// State is that of a stream which the client has opened (RFC 9113 section 5.1), as far as it
// decides what the client may send.
type State uint8

// States.
const (
	Idle       State = iota
	Open             // the client may send more
	HalfClosed       // the client has sent all that it will send
	Closed
	NumStates
)

// Outcome is what a frame of the client makes of a stream: an error of the stream or of the
// connection, or nothing wrong.
type Outcome struct {
	Code       Code
	Connection bool // the error ends the connection
}

// outcomes has a row for each state and a column for each type of frame that may be on a stream.
// The zero Outcome lets the frame pass; what it changes is for the owner of the stream. A Priority
// frame may come at any time, and is of no effect (RFC 9113 section 5.3.2).
var outcomes = [NumStates][WindowUpdate + 1]Outcome{
	Idle: {
		Data: {ProtocolError, true}, RSTStream: {ProtocolError, true},
		WindowUpdate: {ProtocolError, true},
	},
	// Headers are a mistake, too, which is found once they are decoded: the table must know of them.
	HalfClosed: {Data: {StreamClosed, false}},
	// What was on its way when the stream was closed is no mistake, but Headers are.
	Closed: {Data: {StreamClosed, false}, Headers: {StreamClosed, true}},
}

// Accept returns what a frame of that type makes of a stream.
func (s State) Accept(t Type) Outcome {
	if t <= WindowUpdate {
		return outcomes[s][t]
	}
	return Outcome{}
}
