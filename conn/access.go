package conn

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"github.com/lwango/lwango/loop"
)

// AccessLog is told of every answered request. Its methods must not block. They are called on the loop l or, at the end of
// an http.Handler that has hijacked its connection, on that handler's goroutine.
type AccessLog interface {
	// LogRequest logs one request. It keeps in e.Share what the connection has of the room for lines of l, and returns
	// false where that is too much: the connection waits then, five seconds at most, until HasRoom.
	LogRequest(l *loop.Loop, e *AccessEntry) bool

	// HasRoom reports whether a connection with that share may have more requests.
	HasRoom(l *loop.Loop, s Share) bool
}

// Share is what a connection has of the access log's room since it was last emptied. The log alone knows what it means.
type Share struct {
	Used  uint16
	Round uint8
}

// AccessEntry describes an answered request. The byte slices are views, good for the time of the call.
type AccessEntry struct {
	Remote   netip.AddrPort
	Time     time.Time // when the request's head was complete
	Duration time.Duration
	Method   string // "": refused, see Line
	Proto    string
	Status   int   // 499: the client has left before there was an answer
	Bytes    int64 // of the response's body, as framed; of one that broke off, those the client has acknowledged

	// The first KiB of each.
	Target    []byte
	Host      []byte
	Referer   []byte
	UserAgent []byte

	// Line is what the first line of a request begins with that could not be parsed, up to 256 bytes.
	Line []byte

	// Hijacked: the handler has taken the connection over, and Duration is the time until its end, or until the end of the
	// http.Handler. CloseCode is what a WebSocket has ended with; 0: unknown.
	Hijacked  bool
	CloseCode int

	Share Share
}

const (
	loggedText = 1 << 10
	loggedLine = 256
	maxLogWait = 5 * time.Second

	// statusClientLeft is nginx's number for a client that does not wait for its answer.
	statusClientLeft = 499
)

// logAccess tells the access log of the present request. line is what came instead of one.
func (x *exchange) logAccess(line []byte) {
	log := x.set.AccessLog
	if log == nil {
		return
	}
	e := x.accessEntry()
	e.Line = line
	e.Duration = time.Since(x.began)
	c := x.c
	e.Share = Share{c.logUsed, c.logRound}
	x.crowded = !log.LogRequest(c.Loop(), &e)
	c.logUsed, c.logRound = e.Share.Used, e.Share.Round
}

func (x *exchange) accessEntry() AccessEntry {
	e := AccessEntry{
		Remote: x.c.remote.addrPort(),
		Time:   x.began,
		Proto:  x.req.Proto(),
		Status: x.resp.status,
		Bytes:  x.resp.bytes,
	}
	if x.writeErr != nil { // what was framed has not all been sent
		e.Bytes = max(min(e.Bytes, x.writing.Bytes()-int64(x.unsent)-x.resp.before), 0)
	}
	if x.left() {
		e.Status = statusClientLeft
	}
	if raw := x.req.raw; raw != nil {
		h := &x.req.head
		e.Method = h.Method.String()
		e.Target = first(loggedText, h.Target.Of(raw))
		e.Host = first(loggedText, h.Host.Of(raw))
		e.Referer, _ = h.Get(raw, "Referer")
		e.Referer = first(loggedText, e.Referer)
		e.UserAgent, _ = h.Get(raw, "User-Agent")
		e.UserAgent = first(loggedText, e.UserAgent)
	}
	return e
}

func first(n int, b []byte) []byte { return b[:min(n, len(b))] }

// left reports that the client has left before there was an answer, or within the request. One that has only said that it
// sends no more gets its answer, if the handler did not have to wait for it.
func (x *exchange) left() bool {
	switch x.resp.status {
	case 0:
		return x.c.Gone() || x.req.body.cut()
	case 400: // the one that Body.failure gives
		return x.unheard || x.req.body.cut()
	}
	return x.unheard
}

// refusedLine returns the beginning of a request line that could not be parsed.
func (x *exchange) refusedLine() []byte {
	line := bytes.TrimLeft(x.in[x.r:x.w], "\r\n") // empty lines may come before it (RFC 9112 section 2.2)
	if end := bytes.IndexAny(line, "\r\n"); end >= 0 {
		line = line[:end]
	}
	return first(loggedLine, line)
}

// logLater is for a connection that a handler takes over: it returns what logs the request when the connection has ended;
// nil: there is no access log. It may be called on any goroutine, once.
func (x *exchange) logLater() func(closeCode int) {
	if x.set.AccessLog == nil {
		return nil
	}
	e := x.accessEntry()
	for _, text := range []*[]byte{&e.Target, &e.Host, &e.Referer, &e.UserAgent} {
		*text = slices.Clone(*text) // the request is let go of
	}
	e.Hijacked = true
	server, l := x.c.port.server, x.c.Loop()
	return func(closeCode int) {
		e.Duration, e.CloseCode = time.Since(e.Time), closeCode
		if log := server.settings.Load().AccessLog; log != nil {
			log.LogRequest(l, &e)
		}
	}
}

// awaitLog makes a connection wait whose lines have more than their share of the access log's room: those of others would
// find none. What was answered goes out before, and the error is that of writing it.
func (x *exchange) awaitLog() error {
	x.crowded = false
	if err := x.flush(); err != nil {
		return err
	}
	c, log := x.c, x.set.AccessLog
	c.KeepWaiting(true) // also if the client has sent all that it will: there may be thousands of requests in it
	defer c.KeepWaiting(false)
	until := c.Loop().Time().Add(maxLogWait)
	for d := time.Millisecond; !log.HasRoom(c.Loop(), Share{c.logUsed, c.logRound}); d = min(2*d, 50*time.Millisecond) {
		if c.Loop().Stopping() || !c.Loop().Time().Before(until) || c.Sleep(d) != nil {
			break
		}
	}
	return nil
}
