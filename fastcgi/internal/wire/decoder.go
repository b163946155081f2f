package wire

import "github.com/lwango/lwango/internal/wire/cgi"

// Decoder takes apart what an application sends for a request. The caller gives it the bytes in
// pieces of any size, and gets views of them: the Decoder gathers no record. The zero value is
// ready for a response; Reset makes it ready for another one on the same connection.
type Decoder struct {
	record  Header  // the one being taken apart
	part    [8]byte // the first bytes of a header, or of the content of END_REQUEST
	have    uint8   // how many of them there are
	state   state
	left    int // bytes of the record's content still to come
	padding int // bytes of its padding still to come
	skipped int
	end     End
	failed  *cgi.Error
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

// Next takes the next piece from src, of which it uses n bytes. t says what they are:
//
//   - Stdout, Stderr: data is a part of that stream, at least one byte, and a view of src.
//   - EndRequest: the response is complete, see End. Every later call returns this again and uses
//     only padding.
//   - 0: src is used up, and more bytes have to come.
//
// The caller gives src[n:] to the next call. An error is always a *cgi.Error, and every later call
// returns it again.
//
// An empty record of STDOUT or STDERR is passed over, wherever it stands. It should end the stream,
// but PHP sends none at the end, and some programs send one at the begin. Management records and
// unknown types are passed over, too, as the protocol asks: see Skipped.
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
						return d.fail(ErrVersion, n) // garbage, and perhaps no more will come
					}
					return 0, nil, n, nil
				}
				d.record, _ = ParseHeader(d.part[:])
			}
			if e := d.begin(); e != nil {
				return d.fail(e, n)
			}
			// mostly all of the record is there
			if d.state == inStream && len(src)-n >= d.left+d.padding {
				data = src[n : n+d.left : n+d.left]
				n += d.left + d.padding
				d.state, d.left, d.padding = inHeader, 0, 0
				if len(data) > 0 {
					return d.record.Type, data, n, nil
				}
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

// begin judges the header of a record. If the type is one that only web servers send, the peer is
// not at the place in the protocol where it should be. Mostly these are leftovers on a kept
// connection.
func (d *Decoder) begin() *cgi.Error {
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

func (d *Decoder) fail(e *cgi.Error, n int) (Type, []byte, int, error) {
	d.state, d.failed = broken, e
	return 0, nil, n, e
}

// Done reports whether END_REQUEST was read. If the connection ends before that, the response is
// cut short, however complete it looks.
func (d *Decoder) Done() bool { return d.state == ended }

// End returns the content of END_REQUEST.
func (d *Decoder) End() End { return d.end }

// Record returns the header of the last record, for the log.
func (d *Decoder) Record() Header { return d.record }

// Skipped returns how many records were passed over because they have no place in a response:
// management records that answer no question, and types that the protocol does not know.
func (d *Decoder) Skipped() int { return d.skipped }

// Reusable reports whether another request may be sent on the connection: the response is complete
// to the last byte of padding, END_REQUEST tells of success, and no record was passed over. The
// caller has to know that it has sent all of the request, and received no byte behind the response.
func (d *Decoder) Reusable() bool {
	return d.state == ended && d.padding == 0 && d.skipped == 0 && d.end.Protocol == RequestComplete
}

// Reset makes d ready for the next response.
func (d *Decoder) Reset() { *d = Decoder{} }
