// Package httpclient is one request and its answer, by HTTP/1.1 on a connection that the caller
// has, or by HTTP/2 on a stream of one:
//
//	var x httpclient.Exchange
//	x.Begin(s, s, "GET")
//	x.Write(head)
//	for { // x.Receive, then x.Next until it returns More, then x.Await
//	}
//
// Both directions move at once: the answer may begin before the request has been sent, and neither
// side has to read all before it writes. The caller makes the connection, perhaps one that has
// served other requests, writes the request's head and frames its body. The Exchange sends what
// there is room for, and finds heads, body and end in what comes back. Only Await waits. So a proxy
// can pass on both directions on one thread.
//
//	exchange.go  Exchange
//	mux.go       an Exchange by HTTP/2
package httpclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/upstream/http2client"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Errors of an Exchange.
var (
	// ErrHeadSize says that a head is longer than HeadLimit.
	ErrHeadSize = errors.New("the head of the answer is too large")
	// ErrInterim says that the server sends one interim response after another.
	ErrInterim = errors.New("too many interim responses")
)

const (
	// defaultHead is HeadLimit where that is 0.
	defaultHead = 64 << 10
	// maxInterim is how many interim responses may come. Without a bound a server could keep a
	// client waiting for ever, however little silence the client allows.
	maxInterim = 64
)

// Event is what comes next in an answer.
type Event uint8

// The events. An answer is any number of Interim, then Final, any number of Data, and Done. After
// Final with status 101 there is only Done, and what follows belongs to the other protocol.
const (
	More    Event = iota // nothing until more bytes have arrived
	Interim              // the head of an interim response, 1xx except 101
	Final                // the head of the response
	Data                 // a piece of the body
	Done                 // the end of the answer
)

// Exchange is one request and its answer on a connection. It belongs to one thread of the
// connection's loop. The zero value is ready for Begin, also after Reset.
type Exchange struct {
	// HeadLimit is how long the head of an answer may be, in bytes; 0: 64 KiB.
	HeadLimit int
	// KeepTrailer keeps the fields behind a chunked body for Trailer.
	KeepTrailer bool

	// Lenient lets lines of an answer end in LF alone.
	Lenient bool

	// Bound says that the connection has been authenticated, or may be with the next request: NTLM or
	// Negotiate was asked for or used. Then it is not Reusable, since another client's request would
	// pass for this one's. The exchange sees the answer, the caller the request.
	Bound bool

	// Head is valid from Interim or Final until the next call of Next: see Text.
	Head http1.ResponseHead

	// The connection.
	s      *stream.Conn
	over   net.Conn            // s, or TLS over s
	plain  bool                // it is s
	mux    *http2client.Stream // in their place; nil: none
	duplex stream.Duplex
	// Once Sources has been called; before that nil.
	readable, writable loop.Source

	// The answer.
	method       string
	in           []byte // read and not used yet, part of the caller's buffer; nil: all was used
	partialHead  []byte // of a head that has come in more than one read
	head         []byte // the bytes of Head
	body         http1.ResponseBody
	state        state
	interim      int
	keepFor      time.Duration
	gotFirstByte bool // a byte has come
	broken       bool // a write has failed

	finished bool // by HTTP/2: the answer has ended
}

type state uint8

const (
	inHead state = iota
	headDone
	inBody
	ended
)

// Begin begins an exchange on s: over is s itself, or a *tls.Conn over s. Until End nothing else
// may read or write there, and reads and writes do not wait. method is the request's.
func (x *Exchange) Begin(s *stream.Conn, over net.Conn, method string) {
	if x.method != "" { // an earlier attempt
		x.Reset()
	}
	x.s, x.over, x.plain, x.method = s, over, over == net.Conn(s), method
	x.Head.Lenient = x.Lenient
	s.SetNoWait(true)
	s.Duplex(&x.duplex)
}

// End ends the exchange. The caller closes the connection, or uses it for another exchange if
// Reusable has said so. What was not sent yet is dropped.
func (x *Exchange) End() {
	if x.s != nil {
		x.s.Duplex(nil)
		x.s, x.over = nil, nil
	}
	x.mux, x.in = nil, nil
}

// Reset drops all that the exchange holds, except memory that the next one uses again.
func (x *Exchange) Reset() {
	x.End()
	limit, trailer, lenient, fields := x.HeadLimit, x.KeepTrailer, x.Lenient, x.Head.Fields
	*x = Exchange{} // a literal with the fields below would be copied
	x.HeadLimit, x.KeepTrailer, x.Lenient, x.Head.Fields = limit, trailer, lenient, fields[:0]
}

// Write sends p, or holds the part for which there is no room; it does not wait. To bound what is
// held, the caller writes no more until SendHeld has returned 0. After an error the server takes no
// more, and an answer may still come.
func (x *Exchange) Write(p []byte) (int, error) {
	if x.mux != nil {
		return len(p), x.mux.Write(p)
	}
	n, err := x.over.Write(p)
	x.broken = x.broken || err != nil
	return n, err
}

// PutOff is Write of the last bytes of a request, which can go out a little later than now, with
// those of others: see stream.Conn.PutOff. It reports whether it has done that.
func (x *Exchange) PutOff(p []byte) bool { return x.plain && x.s.PutOff(p) }

// SendHeld sends as much of what is held as there is room for, and returns how much is left. What
// was put off, and found no room then, goes out by itself.
func (x *Exchange) SendHeld() (left int, err error) {
	if x.mux != nil {
		return x.mux.Held(), nil // the connection sends it by itself
	}
	left, err = x.duplex.SendHeld()
	x.broken = x.broken || err != nil
	return left + x.owed(), err
}

// Held returns how many bytes are held: the server has had no room for them.
func (x *Exchange) Held() int {
	if x.mux != nil {
		return x.mux.Held()
	}
	return x.duplex.Held() + x.owed()
}

// owed returns how many bytes of what was put off the server has had no room for.
func (x *Exchange) owed() int {
	if x.s == nil {
		return 0 // there is no exchange
	}
	return x.s.Remainder()
}

// Unread reports whether Receive may find something; if not, its error would be
// stream.ErrWouldBlock.
func (x *Exchange) Unread() bool { return !x.plain || x.s.Unread() || x.s.Loop().Stopping() }

// Due and GiveWay are those of the connection, see stream.Conn.Due.
func (x *Exchange) Due() bool { return x.s != nil && x.s.Due() }

// GiveWay is for a caller that has no buffer at present.
func (x *Exchange) GiveWay() {
	if x.s != nil {
		x.s.GiveWay()
	}
}

// Receive reads what has arrived into buf, which Next uses until it returns More or Done. The error
// is stream.ErrWouldBlock, or one with upstream.ErrCut in it. The orderly end of a connection is no
// error if it is the end of the answer, too. All earlier bytes must have been used.
func (x *Exchange) Receive(buf []byte) error {
	if x.mux != nil {
		return x.receiveMux(buf)
	}
	n, err := x.over.Read(buf)
	switch {
	case n > 0:
		x.in, x.gotFirstByte = buf[:n], true
		return nil
	case err == io.EOF && x.state == inBody && !x.broken && x.body.Closed():
		// The kernel reports a reset once. After a write that has got it, a read sees an orderly end.
		return nil
	case err == io.EOF:
		return upstream.ErrCut
	case errors.Is(err, stream.ErrWouldBlock):
		return stream.ErrWouldBlock
	}
	return fmt.Errorf("%w: %w", upstream.ErrCut, err)
}

// Next returns what comes next in the bytes that were received; data, a part of the caller's
// buffer, is for Data alone. An error, with an *http1.Error in it, ErrHeadSize or ErrInterim, means
// that the answer makes no sense from here on.
func (x *Exchange) Next() (e Event, data []byte, err error) {
	if x.mux != nil {
		return x.nextMux()
	}
	switch x.state {
	case inHead:
		return x.nextHead()
	case headDone:
		x.body.Begin(&x.Head, x.method == "HEAD", x.KeepTrailer)
		x.state, x.head, x.partialHead = inBody, nil, nil
		fallthrough
	case inBody:
		for !x.body.Done() && len(x.in) > 0 {
			data, n, err := x.body.Next(x.in)
			if err != nil {
				return Data, data, refused(err, http1.Around(x.in, n))
			}
			if x.in = x.in[n:]; len(data) > 0 {
				return Data, data, nil
			}
		}
		if !x.body.Done() {
			x.in = nil
			return More, nil, nil
		}
		if x.state = ended; len(x.in) == 0 {
			x.in = nil
		}
	}
	return Done, nil, nil
}

// malformed is the error of an answer that breaks a rule of HTTP.
type malformed struct {
	rule   *http1.Error // whose status is for a request
	octets string       // some, around the place
}

func (e *malformed) Error() string { return fmt.Sprintf("%s: %q", e.rule.Reason, e.octets) }

func (e *malformed) Unwrap() error { return e.rule }

// refused adds the octets to what http1 says of them.
func refused(err error, octets []byte) error {
	var rule *http1.Error
	if !errors.As(err, &rule) {
		return err
	}
	return &malformed{rule, string(octets)}
}

// nextHead reads a head. One that comes in a single read, as nearly all do, is not copied.
func (x *Exchange) nextHead() (Event, []byte, error) {
	if x.head != nil { // of an interim response
		x.Head.Reset()
		x.head, x.partialHead = nil, nil
	}
	if len(x.in) == 0 {
		return More, nil, nil
	}
	limit := x.HeadLimit
	if limit == 0 {
		limit = defaultHead
	}
	whole, before := x.in, len(x.partialHead)
	if before > 0 {
		// Not beyond the limit: an answer does not depend on how its bytes arrive.
		x.partialHead = append(x.partialHead, x.in[:min(len(x.in), limit+1-before)]...)
		whole = x.partialHead
	}
	n, err := x.Head.Parse(whole[:min(len(whole), limit)])
	switch {
	case err != nil:
		return More, nil, refused(err, x.Head.Offending(whole))
	case n > 0:
		x.head, x.in = whole[:n:n], x.in[n-before:]
	case len(whole) > limit:
		return More, nil, ErrHeadSize
	default:
		if before == 0 {
			x.partialHead = slices.Clone(x.in)
		}
		x.in = nil
		return More, nil, nil
	}
	if !x.Head.Interim() {
		x.state = headDone
		if x.Head.MayHaveSome(ofConnection) {
			x.readFields()
		}
		return Final, nil, nil
	}
	if x.interim++; x.interim > maxInterim {
		return More, nil, ErrInterim
	}
	return Interim, nil, nil
}

// ofConnection are the names of readFields.
var ofConnection = http1.NamesOf("WWW-Authenticate", "Keep-Alive")

// readFields takes from a head what it says of the connection.
func (x *Exchange) readFields() {
	for _, f := range x.Head.Fields {
		name, value := x.head[f.Name.Start:f.Name.End], x.head[f.Value.Start:f.Value.End]
		switch {
		case len(name) == len("WWW-Authenticate") && ascii.EqualFold(name, "WWW-Authenticate"):
			x.Bound = x.Bound || http1.ForConnection(value)
		case len(name) == len("Keep-Alive") && ascii.EqualFold(name, "Keep-Alive"):
			x.keepFor = keepAlive(value)
		}
	}
}

// keepAlive returns for how long a connection may be kept by a value of Keep-Alive, such as
// "timeout=5, max=99" (RFC 2068 section 19.7.1.1, which later ones have left out and servers send
// all the same); 0: it does not say that. A request that comes at the end of the server's own time
// would find the connection closed, so the time is shorter by a second, or half of it.
func keepAlive(value []byte) (d time.Duration) {
	ascii.EachElement(value, func(e []byte) bool {
		const name = "timeout="
		if !ascii.HasPrefixFold(e, name) {
			return true
		}
		n, err := strconv.ParseUint(string(bytes.Trim(e[len(name):], `"`)), 10, 31)
		if err == nil {
			d = time.Duration(n) * time.Second
			d = max(d-min(time.Second, d/2), 1)
		}
		return false
	})
	return d
}

// KeepFor returns for how long the server lets the connection wait for another request, as far as
// it has said so, with something off for the way; 0: it has not.
func (x *Exchange) KeepFor() time.Duration { return x.keepFor }

// Text returns a copy of the bytes to which the spans in Head point. It is to be called between
// Interim or Final and the next call of Next.
func (x *Exchange) Text() string { return string(x.head) }

// Length returns the length of the body: -1 if that is not known before its end. It may be called
// after Final, and says nothing about answers without a body.
func (x *Exchange) Length() int64 { return x.Head.ContentLength }

// Endless reports, after Done, that nothing but the end of the connection tells where the body ends
// (RFC 9112 section 6.3): it would look the same if the server had died.
func (x *Exchange) Endless() bool { return x.mux == nil && x.state == ended && x.body.ByClose() }

// Trailer calls f for each field behind a chunked body, after Done.
func (x *Exchange) Trailer(f func(name, value []byte)) {
	if x.mux != nil {
		x.mux.Trailer(f)
		return
	}
	x.body.Trailer(f)
}

// GotFirstByte reports whether a byte of an answer has come.
func (x *Exchange) GotFirstByte() bool { return x.gotFirstByte }

// Unparsed returns what was received behind the answer, after Done. It is a part of the caller's
// buffer.
func (x *Exchange) Unparsed() []byte { return x.in }

// Reusable reports, after Done, whether the connection can serve another request, as far as the
// answer tells. The caller must have sent all of the request, or put it off: a stream for which
// there is no room cannot be kept.
func (x *Exchange) Reusable() bool {
	return x.mux == nil && x.state == ended && !x.Bound && x.Head.Status != 101 &&
		x.Head.Persistent() && x.body.Framed() && len(x.in) == 0 && x.Held() == 0 && x.quiet()
}

// quiet reports whether TLS has nothing more to read in its own buffer.
func (x *Exchange) quiet() bool {
	if x.plain {
		return true // the caller asks the socket, see stream.Conn.PutIdle
	}
	var one [1]byte
	n, err := x.over.Read(one[:])
	return n == 0 && errors.Is(err, stream.ErrWouldBlock)
}

// Await waits until there may be something to receive, or room for what is held, at most limit. The
// error is loop.ErrDeadlineExceeded, loop.ErrClientGone or loop.ErrCanceled.
func (x *Exchange) Await(limit time.Duration) error {
	if x.mux != nil {
		return x.mux.Await(limit)
	}
	if x.Held() == 0 {
		return x.s.AwaitRead(limit)
	}
	return x.s.AwaitReadWrite(limit)
}

// Sources appends what Await waits for, for a thread that waits for other things as well. Without
// read, that is only room for what is held.
func (x *Exchange) Sources(to []loop.Source, read bool) []loop.Source {
	if x.mux != nil {
		return append(to, x.mux.Source(read))
	}
	if x.readable == nil {
		x.readable, x.writable = x.s.Readable(), x.s.Writable()
	}
	if read {
		to = append(to, x.readable)
	}
	if x.Held() > 0 {
		to = append(to, x.writable)
	}
	return to
}
