package conn

import (
	"bufio"
	"errors"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// carrier carries one exchange between its client and its handler: a turn of a connection of
// HTTP/1.1, a stream of HTTP/2. What Request, Response and Body do does not depend on which carrier
// there is.
//
// Only the request's thread calls a carrier; bridge_pipe.go has the exception. What writes
// gathers small pieces, may wait for the client, and fails with the same error again once it has
// failed.
type carrier interface {
	// readBody reads a piece of the request's body, decoded, and waits for it if wait is set. The
	// end is io.EOF, perhaps along with the last piece. After stream.ErrWouldBlock and after
	// loop.ErrDeadlineExceeded, when a handler's deadline has passed, it can be called again. Any
	// other error is the body's from then on.
	readBody(p []byte, wait bool) (int, error)

	// awaitBody waits, if wait is set, until there may be something to read. Errors are readBody's.
	awaitBody(wait bool) error

	// arrived reports whether something of the body, or behind it, is there to be read.
	arrived() bool

	// readExpired reports whether the handler's deadline of reads has passed.
	readExpired() bool

	// keepTrailer lets trailer call f for each field behind a body that was read to its end.
	keepTrailer()
	trailer(f func(name, value []byte))

	// interim writes the head of an interim response, if the client knows such.
	interim(status int, fields []Field)

	// head writes the head of the answer.
	head(p *plan)

	// data writes a piece of the answer's content. file writes n bytes of f from off on; if the file
	// turns out to be shorter, it aborts. end is called behind the last piece.
	data(p []byte) error
	file(f File, off, n int64) error
	end(trailer []Field)

	// flush writes what was gathered.
	flush() error

	// abort ends the answer so that the client can tell that it is not complete. It returns the
	// error of all further writes.
	abort(err error) error

	// writeError is the error of all further writes; nil: there is none.
	writeError() error

	// sent returns how much the client has got of an answer of whose content n bytes were written.
	sent(n int64) int64

	setReadDeadline(by time.Time)
	setWriteDeadline(by time.Time)

	// setMaxRate is Response.SetMaxRate, and returns what was set before.
	setMaxRate(n int64) (was int64)

	// setMinRate is Duplex.SetMinRate.
	setMinRate(n int)

	// setBodyTimeout is Body.SetTimeout. paces returns the paces that the client has to keep for the
	// request's content and for the answer's; nil: there is no client.
	setBodyTimeout(d time.Duration)
	paces() (reading, writing *stream.Pace)

	// spend lets other threads run from time to time. n is how many bytes would take as long to
	// move as what the caller has done.
	spend(n int)

	// slim gives up large buffers before a wait that may be long.
	slim()

	// The mode of a Duplex, see its methods. endDuplex writes what is held, dropDuplex does not.
	beginDuplex()
	endDuplex()
	dropDuplex()
	held() int
	room() int // how much the client takes at present, as it has said; unlimited: it says nothing
	sendHeld() (left int, err error)
	awaitDuplex(limit time.Duration, read bool, sources []loop.Source) error

	// upgrade writes a head behind which the connection changes its protocol. Then the handler gets
	// the connection by hijack, or, to use it off the loop, by detach.
	upgrade(p *plan)
	hijack() (net.Conn, *bufio.Reader, error)
	detach() (net.Conn, *bufio.Reader, error)

	// keepOpen returns the owner of the answer after its handler, and the rest of the answer, which
	// the owner's keeper writes; nil: only the handler can go on.
	keepOpen() (owner, *Tail)

	// multiplexed returns the carrier as one of several on a connection; nil: the carrier has the
	// connection to itself.
	multiplexed() multiplexed

	// direct returns the carrier for a goroutine off the loop that reads and writes without the
	// thread; nil: only the thread can read and write.
	direct() direct
}

// multiplexed is a carrier that shares its connection with others: a stream of HTTP/2. A reset can
// end it alone.
type multiplexed interface {
	// opensWebSocket reports whether the request is an extended CONNECT (RFC 8441), whose handler can
	// take the stream over.
	opensWebSocket() bool

	// lastPing is RequestLayer.LastPing.
	lastPing() time.Duration

	// takeGoroutine counts a goroutine of an http.Handler, and reports whether the request may have
	// one. Any goroutine may call end when that has ended.
	takeGoroutine() (end func(), ok bool)

	// takeDescriptor counts a descriptor that is opened for the request, and reports whether the
	// request may have it. giveDescriptors gives n of them back. descriptorGiver returns a function
	// that gives one back, however late it is called on the loop.
	takeDescriptor() bool
	giveDescriptors(n int)
	descriptorGiver() func()
}

// direct is a carrier that the goroutine of an http.Handler may use while the request's thread is
// parked, see bridge_pipe.go: a turn without TLS.
type direct interface {
	// more reports to the thread whether the next read of the request's body will probably find bytes.
	more() bool

	// mayWrite reports whether the answer can be written without its thread.
	mayWrite() bool

	// setOffLoop marks the following reads and writes as those of another goroutine than the thread's,
	// or ends that.
	setOffLoop(on bool)
}

// unlimited is the room of a client that does not say how much it takes.
const unlimited = math.MaxInt

// plan is the head of an answer, decided before a byte of it is made.
type plan struct {
	status int
	reason string // "": the usual one
	fields []Field

	extent extent
	length int64 // with byLength
	bare   bool  // no content follows, whatever the head says: HEAD, 204, 304

	contentType string // to be added; "": none
	dated       bool   // no Date is to be added
	overridden  bool   // fields has some of Config.Headers
	upgrade     bool   // fields has Upgrade
	identity    bool   // the handler wants the end of the connection to be the end of the content
	close       bool   // the connection is to end with this answer
	reading     bool   // what makes the answer may still read the request's body
}

// extent is how the head of an answer says where the content ends.
type extent uint8

const (
	undelimited extent = iota // not at all
	byLength                  // by Content-Length
	byEnd                     // the content is as long as it turns out
)

// Carriers of exchanges that have none any more.
var (
	noRequest carrier = void{ErrComplete}
	takenOver carrier = void{http.ErrHijacked}
)

// void is the carrier of an exchange that has lost its own. Every call fails with err.
type void struct{ err error }

func (v void) readBody([]byte, bool) (int, error)                   { return 0, v.err }
func (v void) awaitBody(bool) error                                 { return v.err }
func (v void) arrived() bool                                        { return false }
func (v void) readExpired() bool                                    { return false }
func (v void) keepTrailer()                                         {}
func (v void) trailer(func(name, value []byte))                     {}
func (v void) interim(int, []Field)                                 {}
func (v void) head(*plan)                                           {}
func (v void) data([]byte) error                                    { return v.err }
func (v void) file(File, int64, int64) error                        { return v.err }
func (v void) end([]Field)                                          {}
func (v void) flush() error                                         { return v.err }
func (v void) abort(error) error                                    { return v.err }
func (v void) writeError() error                                    { return v.err }
func (v void) sent(int64) int64                                     { return 0 }
func (v void) setReadDeadline(time.Time)                            {}
func (v void) setWriteDeadline(time.Time)                           {}
func (v void) setMinRate(int)                                       {}
func (v void) setMaxRate(int64) int64                               { return 0 }
func (v void) setBodyTimeout(time.Duration)                         {}
func (v void) paces() (_, _ *stream.Pace)                           { return nil, nil }
func (v void) spend(int)                                            {}
func (v void) slim()                                                {}
func (v void) beginDuplex()                                         {}
func (v void) endDuplex()                                           {}
func (v void) dropDuplex()                                          {}
func (v void) held() int                                            { return 0 }
func (v void) room() int                                            { return unlimited }
func (v void) sendHeld() (int, error)                               { return 0, v.err }
func (v void) awaitDuplex(time.Duration, bool, []loop.Source) error { return v.err }
func (v void) upgrade(*plan)                                        {}
func (v void) hijack() (net.Conn, *bufio.Reader, error)             { return nil, nil, v.err }
func (v void) detach() (net.Conn, *bufio.Reader, error)             { return nil, nil, v.err }
func (v void) keepOpen() (owner, *Tail)                             { return nil, nil }
func (v void) multiplexed() multiplexed                             { return nil }
func (v void) direct() direct                                       { return nil }

var (
	errShortBody = errors.New("response body is shorter than announced")
	errAborted   = errors.New("response given up by its handler")
)

// File is a file from which a response's body can come, such as an *os.File.
type File interface {
	Fd() uintptr
	Close() error
}

// delimiter is how the client finds the end of an answer's content (RFC 9112 section 6.3).
type delimiter uint8

const (
	plain    delimiter = iota // by its length, or there is none
	inChunks                  // Transfer-Encoding: chunked
	byClose                   // the end of the connection
)
