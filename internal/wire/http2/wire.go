package http2

import (
	"slices"
	"sync"
)

// Sizes of the buffers of a Wire while it receives or sends.
const (
	InputSize  = 32 << 10 // a frame and more
	MaxOutput  = 64 << 10 // gathered before streams wait
	OutputSize = 96 << 10 // with the last frame, and heads
)

// Wire is the state of either side of a connection, without the socket: input, output, the open
// streams, and the limits of the peer. Its owner reads into ReadBuffer, acts on each frame of Next,
// and calls Send; so what streams have gathered meanwhile goes out in one write. A Wire belongs to
// a loop. The zero value is not ready for use: see NewWire.
type Wire struct {
	Decoder
	Block  Block  // of the peer, to be continued
	Inflow Inflow // of the connection

	Open []*Sender // the streams that are open,
	ids  []uint32  // and their identifiers

	// What the peer takes.
	SettingsReceived bool  // its first SETTINGS have come
	Window           int64 // how much content on the connection,
	InitialWindow    int64 // and on a new stream
	MaxFrameSize     int   // the longest frame

	in   []byte // in[r:w] was read and is not used yet; nil: nothing
	r, w int

	Out         []byte // gathered
	spare       []byte // for what is gathered next
	batch       uint   // what stands in Out is of this one
	noTableSent bool   // NoTable was sent

	peerCost
	unwritten int // of what was sent; the owner says how much

	queue   *[numRanks]senderQueue // streams with content to be sent; nil since ReleaseBuffers
	queued  int
	waiting int64 // what these may send, as far as their own windows take it
}

// NewWire returns a Wire as it is before SETTINGS of either side.
func NewWire() Wire {
	return Wire{Window: DefaultWindow, InitialWindow: DefaultWindow, MaxFrameSize: DefaultFrameSize,
		Inflow: Inflow{Size: DefaultWindow, Window: DefaultWindow}}
}

// inputs are for connections that have something to read, outputs for what they send, queues for
// those that have streams which wait to send.
var (
	inputs  = sync.Pool{New: func() any { return new([InputSize]byte) }}
	outputs = sync.Pool{New: func() any { return new([OutputSize]byte) }}
	queues  = sync.Pool{New: func() any { return new([numRanks]senderQueue) }}
)

// ReadBuffer returns the memory for what is read next, after what is not parsed yet.
func (w *Wire) ReadBuffer() []byte {
	if w.in == nil {
		w.in = inputs.Get().(*[InputSize]byte)[:]
	}
	if w.r > 0 {
		w.w = copy(w.in, w.in[w.r:w.w])
		w.r = 0
	}
	return w.in[w.w:]
}

// Received notes that n bytes were read into ReadBuffer.
func (w *Wire) Received(n int) { w.w += n }

// Prepend puts p, which another reader has read, in front of all input that is read later.
func (w *Wire) Prepend(p []byte) {
	if len(p) > 0 {
		w.in = make([]byte, max(InputSize, len(p)))
		w.w = copy(w.in, p)
	}
}

// Unparsed returns what was read and is not parsed yet.
func (w *Wire) Unparsed() []byte { return w.in[w.r:w.w] }

// Discard drops the first n bytes of Unparsed.
func (w *Wire) Discard(n int) { w.r += n }

// Next returns the next frame that has come as a whole, without padding and priority. ok is false
// if there is none, if the frame ends the connection with the code, or if the peer's socket has to
// take output first, see MustFlush. now is the time in seconds, and unwritten is for MustFlush.
//
// A Priority frame that is not as long as it must be is for the caller to refuse (section 6.3).
func (w *Wire) Next(now int64, unwritten int) (h Header, payload []byte, ok bool, code Code) {
	have := w.in[w.r:w.w]
	if len(have) < FrameHeaderLen || w.MustFlush(unwritten) {
		return h, nil, false, NoError
	}
	h = ParseHeader(have)
	if code := h.CheckLength(); code != NoError {
		return h, nil, false, code
	}
	if !w.Block.continues(h) || !w.SettingsReceived && (h.Type != SettingsFrame || h.Flags&Ack != 0) {
		return h, nil, false, ProtocolError
	}
	end := FrameHeaderLen + int(h.Length)
	if end > len(have) {
		return h, nil, false, NoError
	}
	w.r += end
	payload = have[FrameHeaderLen:end]
	if h.Type == Data || h.Type == Headers {
		payload, code = h.content(payload)
	}
	if code == NoError {
		w.charge(now, frameCost(h, payload))
		code = w.checkCost()
	}
	return h, payload, code == NoError, code
}

// ReleaseBuffers gives up the memory that an idle connection does not need.
func (w *Wire) ReleaseBuffers() {
	if w.r == w.w && w.in != nil {
		if len(w.in) == InputSize {
			inputs.Put((*[InputSize]byte)(w.in))
		}
		w.in, w.r, w.w = nil, 0, 0
	}
	if w.queued == 0 && w.queue != nil {
		queues.Put(w.queue)
		w.queue = nil
	}
	for _, b := range [2]*[]byte{&w.Out, &w.spare} {
		if len(*b) > 0 {
			continue // gathered while the last batch was sent
		}
		if cap(*b) == OutputSize {
			outputs.Put((*[OutputSize]byte)((*b)[:OutputSize]))
		}
		*b = nil
	}
}

// Find returns the open stream with the identifier id, or nil.
func (w *Wire) Find(id uint32) *Sender {
	if i := slices.Index(w.ids, id); i >= 0 {
		return w.Open[i]
	}
	return nil
}

// Add opens a stream, whose ID is set.
func (w *Wire) Add(s *Sender, o Owner) {
	w.ids, w.Open = append(w.ids, s.ID), append(w.Open, s)
	s.Owner, s.at, s.Window, s.Rank = o, int32(len(w.Open)), w.InitialWindow, DefaultRank
}

// Remove takes a stream out of those that are open.
func (w *Wire) Remove(s *Sender) {
	if s.at == 0 {
		return
	}
	w.Unqueue(s)
	last := len(w.Open) - 1
	moved := w.Open[last]
	w.ids[s.at-1], w.Open[s.at-1], moved.at = moved.ID, moved, s.at
	w.Open[last] = nil
	w.ids, w.Open = w.ids[:last], w.Open[:last]
	s.at = 0
}

// Settings acts on the peer's settings, and acknowledges them. other, if it is not nil, gets those
// that are not of flow control and frames. A code other than NoError ends the connection.
func (w *Wire) Settings(h Header, payload []byte, other func(Setting, uint32) Code) Code {
	if h.Flags&Ack != 0 {
		return NoError
	}
	window := w.InitialWindow // the last of several counts
	for ; len(payload) > 0; payload = payload[6:] {
		setting := Setting(payload[0])<<8 | Setting(payload[1])
		value := Uint32(payload[2:])
		code := CheckSetting(setting, value)
		switch {
		case code != NoError:
		case setting == InitialWindowSize:
			window = int64(value)
		case setting == MaxFrameSize:
			w.MaxFrameSize = int(min(value, DefaultFrameSize))
		case other != nil:
			code = other(setting, value)
		}
		if code != NoError {
			return code
		}
	}
	if code := w.setInitialWindow(window); code != NoError {
		return code
	}
	w.SettingsReceived = true
	w.Gather()
	w.Out = AppendHeader(w.Out, SettingsFrame, Ack, 0, 0)
	return NoError
}

// setInitialWindow changes the windows of all streams (section 6.9.2).
func (w *Wire) setInitialWindow(n int64) Code {
	change := n - w.InitialWindow
	if change == 0 {
		return NoError
	}
	w.InitialWindow = n
	for _, s := range w.Open {
		if w.addWindow(s, change); s.Window > LargestWindow {
			return FlowControlError
		}
		if s.Window <= 0 { // it waited for the connection's window
			w.Unqueue(s)
		}
		w.Requeue(s)
	}
	return NoError
}

// WindowUpdate acts on a frame of that type for the stream s, nil if it is closed. A code other
// than NoError ends the stream if the frame is for one, or else the connection.
func (w *Wire) WindowUpdate(h Header, s *Sender, payload []byte) Code {
	if h.Stream != 0 && s == nil {
		return NoError
	}
	n := int64(Uint32(payload) &^ (1 << 31))
	if n == 0 {
		return ProtocolError
	}
	if h.Stream == 0 {
		if w.Window += n; w.Window > LargestWindow {
			return FlowControlError
		}
		return NoError
	}
	if w.addWindow(s, n); s.Window > LargestWindow {
		return FlowControlError
	}
	w.Requeue(s)
	return NoError
}
