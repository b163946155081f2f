package http2

import (
	"slices"
	"sync"
)

// Sizes of what a Wire holds while something comes or is sent.
const (
	InputSize  = 32 << 10 // a frame and more
	MaxOutput  = 64 << 10 // gathered before streams wait
	OutputSize = 96 << 10 // with the last frame, and heads
)

// Wire is what both sides of a connection have, apart from the socket: what was read, what is to be
// sent, the streams that are open, and what the peer takes. Its owner reads into Space, acts on
// each frame of Next, and calls Send; so what streams have gathered meanwhile goes out in one
// write. A Wire belongs to a loop. The zero value is not ready for use: see NewWire.
type Wire struct {
	Decoder
	Block  Block  // of the peer that goes on
	Inflow Inflow // of the connection

	Open []*Sender // the streams that are open,
	ids  []uint32  // and their numbers

	// What the peer takes.
	Settled   bool  // its first SETTINGS have come
	Window    int64 // how much content on the connection,
	NewWindow int64 // and on a new stream
	Frame     int   // the longest frame

	in   []byte // in[r:w] was read and is not used yet; nil: nothing
	r, w int

	Out   []byte // gathered
	spare []byte // for what is gathered next
	batch uint   // what stands in Out is of this one
	bare  bool   // NoTable was sent

	debt     // of the peer
	held int // by the owner, of what was sent: the socket has not taken it

	queue   *[ranks]senderQueue // streams with content to be sent; nil since Slim
	queued  int
	waiting int64 // what these may send, as far as their own windows take it
}

// NewWire returns a Wire as it is before SETTINGS of either side.
func NewWire() Wire {
	return Wire{Window: Window, NewWindow: Window, Frame: FrameSize,
		Inflow: Inflow{Size: Window, Credit: Window}}
}

// inputs are for connections that have something to read, outputs for what they send, queues for
// those that have streams which wait to send.
var (
	inputs  = sync.Pool{New: func() any { return new([InputSize]byte) }}
	outputs = sync.Pool{New: func() any { return new([OutputSize]byte) }}
	queues  = sync.Pool{New: func() any { return new([ranks]senderQueue) }}
)

// Space returns the memory for what is read next, behind what was not used yet.
func (w *Wire) Space() []byte {
	if w.in == nil {
		w.in = inputs.Get().(*[InputSize]byte)[:]
	}
	if w.r > 0 {
		w.w = copy(w.in, w.in[w.r:w.w])
		w.r = 0
	}
	return w.in[w.w:]
}

// Came says that n bytes were read into Space.
func (w *Wire) Came(n int) { w.w += n }

// Put puts what another has read in front of all that is read later.
func (w *Wire) Put(p []byte) {
	if len(p) > 0 {
		w.in = make([]byte, max(InputSize, len(p)))
		w.w = copy(w.in, p)
	}
}

// Unused returns what was read and is not used yet.
func (w *Wire) Unused() []byte { return w.in[w.r:w.w] }

// Use drops the first n bytes of that.
func (w *Wire) Use(n int) { w.r += n }

// Next returns the next frame that has come as a whole, without padding and priority. ok is false
// if there is none, if the frame ends the connection with the code, or if the peer's socket has to
// take something first (Pressed). now is the time in seconds, and held what Pressed wants to know.
//
// A Priority frame that is not as long as it must be is for the caller to refuse (section 6.3).
func (w *Wire) Next(now int64, held int) (h Header, payload []byte, ok bool, code Code) {
	have := w.in[w.r:w.w]
	if len(have) < HeaderSize || w.Pressed(held) {
		return h, nil, false, NoError
	}
	h = ParseHeader(have)
	if code := h.CheckLength(); code != NoError {
		return h, nil, false, code
	}
	if !w.Block.goesOn(h) || !w.Settled && (h.Type != SettingsFrame || h.Flags&Ack != 0) {
		return h, nil, false, ProtocolError
	}
	end := HeaderSize + int(h.Length)
	if end > len(have) {
		return h, nil, false, NoError
	}
	w.r += end
	payload = have[HeaderSize:end]
	if h.Type == Data || h.Type == Headers {
		payload, code = h.content(payload)
	}
	if code == NoError {
		w.charge(now, price(h, payload))
		code = w.excessive()
	}
	return h, payload, code == NoError, code
}

// Slim gives up the memory that is not needed while nothing comes and nothing is sent.
func (w *Wire) Slim() {
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

// Find returns the open stream of that number, nil if there is none.
func (w *Wire) Find(id uint32) *Sender {
	if i := slices.Index(w.ids, id); i >= 0 {
		return w.Open[i]
	}
	return nil
}

// Add opens a stream, whose number is set.
func (w *Wire) Add(s *Sender, o Owner) {
	w.ids, w.Open = append(w.ids, s.ID), append(w.Open, s)
	s.Owner, s.at, s.Window, s.Rank = o, int32(len(w.Open)), w.NewWindow, DefaultRank
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
	window := w.NewWindow // the last of several counts
	for ; len(payload) > 0; payload = payload[6:] {
		setting := Setting(payload[0])<<8 | Setting(payload[1])
		value := Uint32(payload[2:])
		code := CheckSetting(setting, value)
		switch {
		case code != NoError:
		case setting == InitialWindowSize:
			window = int64(value)
		case setting == MaxFrameSize:
			w.Frame = int(min(value, FrameSize))
		case other != nil:
			code = other(setting, value)
		}
		if code != NoError {
			return code
		}
	}
	if code := w.setNewWindow(window); code != NoError {
		return code
	}
	w.Settled = true
	w.Gather()
	w.Out = AppendHeader(w.Out, SettingsFrame, Ack, 0, 0)
	return NoError
}

// setNewWindow changes the windows of all streams (section 6.9.2).
func (w *Wire) setNewWindow(n int64) Code {
	change := n - w.NewWindow
	if change == 0 {
		return NoError
	}
	w.NewWindow = n
	for _, s := range w.Open {
		if w.widen(s, change); s.Window > LargestWindow {
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
	if w.widen(s, n); s.Window > LargestWindow {
		return FlowControlError
	}
	w.Requeue(s)
	return NoError
}
