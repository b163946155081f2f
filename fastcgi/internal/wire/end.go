package wire

import "encoding/binary"

// ProtocolStatus is what END_REQUEST says of the request, whatever the program's exit code.
type ProtocolStatus uint8

// Values of ProtocolStatus. PHP-FPM sends RequestComplete alone, whatever happened.
const (
	RequestComplete ProtocolStatus = iota
	CantMultiplex
	Overloaded
	UnknownRole
)

// End is the content of END_REQUEST.
type End struct {
	AppStatus uint32 // the program's exit code
	Protocol  ProtocolStatus
}

const endLen = 8

// ParseEnd reads the content of an END_REQUEST.
func ParseEnd(content []byte) (End, error) {
	if len(content) != endLen {
		return End{}, ErrEnd
	}
	return End{binary.BigEndian.Uint32(content), ProtocolStatus(content[4])}, nil
}

// Err returns nil for a request that the application has completed, whatever the program's exit
// code.
func (e End) Err() error {
	switch e.Protocol {
	case RequestComplete:
		return nil
	case CantMultiplex:
		return ErrCantMultiplex
	case Overloaded:
		return ErrOverloaded
	case UnknownRole:
		return ErrUnknownRole
	}
	return ErrProtocolStatus
}
