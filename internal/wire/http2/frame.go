package http2

import "fmt"

// Type is that of a frame.
type Type uint8

// Types of frames (RFC 9113 section 6, RFC 9218 section 7.1).
const (
	Data           Type = 0x0
	Headers        Type = 0x1
	Priority       Type = 0x2
	RSTStream      Type = 0x3
	SettingsFrame  Type = 0x4
	PushPromise    Type = 0x5
	Ping           Type = 0x6
	GoAway         Type = 0x7
	WindowUpdate   Type = 0x8
	Continuation   Type = 0x9
	PriorityUpdate Type = 0x10
)

// Flags of frames.
const (
	EndStream    = 0x1 // of Data and Headers
	Ack          = 0x1 // of SettingsFrame and Ping
	EndHeaders   = 0x4
	Padded       = 0x8
	PriorityFlag = 0x20 // a Headers frame has the fields of Priority in front
)

const (
	// Preface is what a client begins with (RFC 9113 section 3.4).
	Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

	FrameHeaderLen = 9 // of a frame

	// DefaultFrameSize is the longest payload that may be sent to a peer that has not allowed more,
	// and that peers of this package may send.
	DefaultFrameSize = 16 << 10

	// DefaultWindow is the initial flow-control window of a stream and of a connection. LargestWindow
	// is the largest that a window may become (section 6.9.1).
	DefaultWindow = 64<<10 - 1
	LargestWindow = 1<<31 - 1
)

// Header is the head of a frame.
type Header struct {
	Length uint32
	Type   Type
	Flags  uint8
	Stream uint32
}

// ParseHeader reads the head of a frame, whose FrameHeaderLen octets b begins with.
func ParseHeader(b []byte) Header {
	_ = b[FrameHeaderLen-1]
	return Header{
		Length: uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]),
		Type:   Type(b[3]), Flags: b[4],
		Stream: Uint32(b[5:]) &^ (1 << 31), // the first bit is reserved
	}
}

// AppendHeader appends the head of a frame.
func AppendHeader(b []byte, t Type, flags uint8, stream uint32, length int) []byte {
	return append(b, byte(length>>16), byte(length>>8), byte(length), byte(t), flags,
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

// PutLength sets the length of the frame whose head b begins with.
func PutLength(b []byte, length int) {
	b[0], b[1], b[2] = byte(length>>16), byte(length>>8), byte(length)
}

// Uint32 reads the first four octets of b.
func Uint32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// AppendUint32 appends four octets.
func AppendUint32(b []byte, n uint32) []byte {
	return append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// Code says why a stream or a connection ends (RFC 9113 section 7). A Code is an error of a
// connection.
type Code uint32

// Codes.
const (
	NoError            Code = 0x0
	ProtocolError      Code = 0x1
	InternalError      Code = 0x2
	FlowControlError   Code = 0x3
	SettingsTimeout    Code = 0x4
	StreamClosed       Code = 0x5
	FrameSizeError     Code = 0x6
	RefusedStream      Code = 0x7
	Cancel             Code = 0x8
	CompressionError   Code = 0x9
	ConnectError       Code = 0xa
	EnhanceYourCalm    Code = 0xb
	InadequateSecurity Code = 0xc
	HTTP11Required     Code = 0xd
)

var codeNames = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
	"STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR",
	"CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code %#x", uint32(c))
}

// Error implements error.
func (c Code) Error() string { return "http2: " + c.String() }

// AppendReset appends an RST_STREAM frame.
func AppendReset(b []byte, stream uint32, c Code) []byte {
	return AppendUint32(AppendHeader(b, RSTStream, 0, stream, 4), uint32(c))
}

// AppendGoAway appends a GOAWAY frame: streams beyond last were not processed.
func AppendGoAway(b []byte, last uint32, c Code, debug string) []byte {
	b = AppendHeader(b, GoAway, 0, 0, 8+len(debug))
	return append(AppendUint32(AppendUint32(b, last), uint32(c)), debug...)
}

// AppendWindowUpdate appends a WINDOW_UPDATE frame.
func AppendWindowUpdate(b []byte, stream, increment uint32) []byte {
	return AppendUint32(AppendHeader(b, WindowUpdate, 0, stream, 4), increment)
}

// Setting is the number of a setting (RFC 9113 section 6.5.2, RFC 8441 section 3, RFC 9218 section
// 2.1).
type Setting uint16

// Settings.
const (
	HeaderTableSize       Setting = 0x1
	EnablePush            Setting = 0x2
	MaxConcurrentStreams  Setting = 0x3
	InitialWindowSize     Setting = 0x4
	MaxFrameSize          Setting = 0x5
	MaxHeaderListSize     Setting = 0x6
	EnableConnectProtocol Setting = 0x8
	NoRFC7540Priorities   Setting = 0x9
)

// AppendSetting appends an entry of a SETTINGS frame.
func AppendSetting(b []byte, s Setting, value uint32) []byte {
	return AppendUint32(append(b, byte(s>>8), byte(s)), value)
}

// CheckSetting returns the error of a connection whose peer has sent that value; 0: none.
func CheckSetting(s Setting, value uint32) Code {
	switch s {
	case EnablePush, EnableConnectProtocol, NoRFC7540Priorities:
		if value > 1 {
			return ProtocolError
		}
	case InitialWindowSize:
		if value > LargestWindow {
			return FlowControlError
		}
	case MaxFrameSize:
		if value < DefaultFrameSize || value > 1<<24-1 {
			return ProtocolError
		}
	}
	return NoError
}

// content returns the content of a Data or Headers frame, without padding (RFC 9113 section 6.1)
// and without what RFC 7540 had for priorities.
func (h Header) content(payload []byte) ([]byte, Code) {
	if h.Flags&Padded != 0 {
		if len(payload) == 0 || int(payload[0]) >= len(payload) {
			return nil, ProtocolError
		}
		payload = payload[1 : len(payload)-int(payload[0])]
	}
	if h.Type == Headers && h.Flags&PriorityFlag != 0 {
		if len(payload) < 5 {
			return nil, FrameSizeError
		}
		if Uint32(payload)&^(1<<31) == h.Stream {
			return nil, ProtocolError // a stream that depends on itself
		}
		payload = payload[5:]
	}
	return payload, NoError
}

// CheckLength returns the error that a frame of that type makes for its connection by its length
// and its stream alone.
func (h Header) CheckLength() Code {
	if h.Length > DefaultFrameSize {
		return FrameSizeError
	}
	switch h.Type { // where it may be
	case Data, Headers, Continuation, PushPromise, Priority, RSTStream:
		if h.Stream == 0 {
			return ProtocolError
		}
	case SettingsFrame, Ping, GoAway, PriorityUpdate:
		if h.Stream != 0 {
			return ProtocolError
		}
	}
	wrong := false
	switch h.Type {
	case RSTStream, WindowUpdate:
		wrong = h.Length != 4
	case SettingsFrame:
		wrong = h.Length%6 != 0 || h.Flags&Ack != 0 && h.Length != 0
	case Ping:
		wrong = h.Length != 8
	case GoAway:
		wrong = h.Length < 8
	case PriorityUpdate:
		wrong = h.Length < 4
	}
	if wrong {
		return FrameSizeError
	}
	return NoError
}
