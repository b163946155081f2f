package wire

// Decoder takes apart what an application sends for a request. It is given the bytes in pieces of any size and
// gives out views of them: no record is ever gathered. The zero value is ready for a response; Reset makes it ready
// for another on the same connection.
type Decoder struct {
	record  Header  // the one being taken apart
	part    [8]byte // of a header or of an END_REQUEST's content, while it is not complete
	have    uint8   // how much there is in part
	state   state
	left    int // content of the record still to come
	padding int // padding of the record still to come
	skipped int
	end     End
	failed  *Error
}

type state uint8

const (
	inHeader state = iota
	inStream       // content of STDOUT or STDERR
	inEnd          // content of END_REQUEST
	inSkipped
	inPadding
	ended
	broken
)

// Next takes the next piece from src, of which it uses n bytes. t says what came of them:
//
//   - Stdout, Stderr: data is some of that stream, at least one byte, as a part of src.
//   - EndRequest: the response is complete, see End. Every later call gives this again and uses nothing but padding.
//   - 0: src is used up, and nothing came of the rest of it.
//
// src[n:] is to be given to the next call. An error is always an *Error, and comes back from every later call.
//
// An empty record of STDOUT or STDERR is passed over, wherever it stands. It should end the stream, but PHP sends
// none at the end, and some programs one before the begin. Management records are passed over, as the protocol asks
// for when an unknown type comes, and so are types that it does not know: see Skipped.
func (d *Decoder) Next(src []byte) (t Type, data []byte, n int, err error) {
	for {
		rest := src[n:]
		switch d.state {
		case inHeader:
			if d.have == 0 && len(rest) >= HeaderLen {
				d.record, _ = ParseHeader(rest)
				n += HeaderLen
			} else {
				k, whole := d.gather(rest)
				n += k
				if !whole {
					if d.have > 0 && d.part[0] != Version {
						return d.fail(ErrVersion, n) // garbage too short for a header, and perhaps all there is
					}
					return 0, nil, n, nil
				}
				d.record, _ = ParseHeader(d.part[:])
			}
			if e := d.begin(); e != nil {
				return d.fail(e, n)
			}
		case inStream:
			if d.left == 0 {
				d.state = inPadding
				continue
			}
			k := min(d.left, len(rest))
			if k == 0 {
				return 0, nil, n, nil
			}
			d.left -= k
			return d.record.Type, rest[:k:k], n + k, nil
		case inEnd:
			k, whole := d.gather(rest)
			n += k
			if !whole {
				return 0, nil, n, nil
			}
			d.end, _ = ParseEnd(d.part[:])
			d.state = ended
		case inSkipped:
			k := min(d.left, len(rest))
			n += k
			if d.left -= k; d.left > 0 {
				return 0, nil, n, nil
			}
			d.state = inPadding
		case inPadding, ended:
			k := min(d.padding, len(rest))
			n += k
			d.padding -= k
			switch {
			case d.state == ended:
				return EndRequest, nil, n, nil
			case d.padding > 0:
				return 0, nil, n, nil
			}
			d.state = inHeader
		default:
			return 0, nil, n, d.failed
		}
	}
}

// begin looks at the header of a record. A record of ours with a type that applications do not send comes from a
// peer that is not at the place in the protocol where we take it to be: leftovers on a kept connection, mostly.
func (d *Decoder) begin() *Error {
	h := &d.record
	d.left, d.padding = int(h.Content), int(h.Padding)
	if h.Version != Version {
		return ErrVersion
	}
	switch h.Type {
	case Stdout, Stderr:
		d.state = inStream
	case EndRequest:
		d.state = inEnd
		if h.Content != endLen && h.ID == RequestID {
			return ErrEnd
		}
	case BeginRequest, AbortRequest, Params, Stdin, Data, GetValues:
		return ErrType
	default:
		d.state = inSkipped
		d.skipped++
		if h.ID == 0 {
			return nil
		}
	}
	if h.ID != RequestID {
		return ErrID
	}
	return nil
}

// gather moves bytes from src to part, until there are eight.
func (d *Decoder) gather(src []byte) (n int, whole bool) {
	n = copy(d.part[d.have:], src)
	if d.have += uint8(n); int(d.have) < len(d.part) {
		return n, false
	}
	d.have = 0
	return n, true
}

func (d *Decoder) fail(e *Error, n int) (Type, []byte, int, error) {
	d.state, d.failed = broken, e
	return 0, nil, n, e
}

// Done reports whether END_REQUEST was read. A response whose connection ended before it was cut short, however
// complete it looks.
func (d *Decoder) Done() bool { return d.state == ended }

// End returns what END_REQUEST said.
func (d *Decoder) End() End { return d.end }

// Record returns the header of the record that was read last, for the log.
func (d *Decoder) Record() Header { return d.record }

// Skipped returns how many records were passed over that have no place in a response: management records that answer
// nothing, and types that the protocol does not know.
func (d *Decoder) Skipped() int { return d.skipped }

// Reusable reports whether another request may be sent on the connection: the response is complete to the last byte
// of padding, the application spoke of success, and nothing was passed over. It is for the caller to see that
// nothing was received behind that, and that all of the request had been sent.
func (d *Decoder) Reusable() bool {
	return d.state == ended && d.padding == 0 && d.skipped == 0 && d.end.Protocol == RequestComplete
}

// Reset makes d ready for the next response.
func (d *Decoder) Reset() { *d = Decoder{} }
