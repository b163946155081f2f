package reverseproxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/wire/proxyproto"
	"github.com/lwango/lwango/stream"
)

// Call is one request on its way to an upstream and back. It has the body, gets the connections,
// and decides what follows a failure; a RoundTripper speaks the protocol. A module has a Call in
// its own record of a request. Only the request's thread may use it.
type Call struct {
	*Route
	tripper RoundTripper
	Req     *conn.Request
	Resp    *conn.Response

	// The request's body.
	Body      io.Reader // the rest of it; nil: there is none
	Length    int64     // -1: not known
	Left      int64     // bytes that have not been read in this attempt; -1: not known
	Unspooled bool      // it is read from the client as it arrives
	taken     bool      // some of it has been read

	// The connection.
	Up         upstream.Lease
	Stream     *stream.Conn // nil with HTTP/2: see upstream.Lease.Mux
	counted    bool         // its descriptor is, by conn
	reused     bool         // Stream has served another request
	Retryable  bool         // the request can be sent again if that has ended
	needsFresh bool         // the next connection has to be a new one
	cookieOld  bool         // the client's cookie is to be renewed

	splitName string // of the entry of split whose upstreams are asked; "": those of the route are

	// The answer.
	GotFirstByte bool // a byte of it has come
	SentInterim  bool // the client has got an interim response
	Status       int  // 0: its head is not complete
	Redirect     string
	Sendfile     string // X-Accel-Redirect and X-Sendfile
	Flow         Flow
}

// RoundTripper is a module's part of a Call: request and answer in the upstream's protocol.
type RoundTripper interface {
	// RoundTrip sends the request over the connection and takes the answer. Without an error that is
	// complete. A Next asks for another upstream.
	RoundTrip() error
	// Finish ends the handler after a complete answer.
	Finish() int
	// Drop releases the resources of the round trip, before its connection is closed.
	Drop()
}

// Begin begins a call on a route; c is the zero Call. Free must be called in the end, also if the
// thread is killed.
func (c *Call) Begin(r *Route, t RoundTripper, req *conn.Request, resp *conn.Response) {
	c.Route, c.tripper, c.Req, c.Resp = r, t, req, resp
	g := r.Group
	if r.split != nil {
		if other, name := r.split.choose(req); other != nil {
			g, c.splitName = other, name
		}
	}
	c.Up.Begin(g)
	c.Length = req.ContentLength()
	c.Up.Stay, c.Up.Tries, c.Up.Within = r.causes&onConnect == 0, r.RetryTries, r.RetryTime
	if r.key != nil {
		c.Up.Key = r.key.of(req)
	}
	if r.Header != "" {
		c.Up.Preface = proxyproto.Append(nil, r.Header, req.RemoteAddr(), req.LocalAddr())
	}
	if r.cookies != nil {
		c.Up.StickyID, c.cookieOld = r.cookies.read(req)
	}
}

// TakeBody gets the body ready to be sent: it is there before an upstream is asked, unless the
// configuration says otherwise. If the body cannot be taken, TakeBody returns the status for the
// client, and otherwise 0. If the client is at fault, conn replaces it by the one that says how.
func (c *Call) TakeBody() (status int) {
	switch {
	case c.Length == 0:
		return 0
	case !c.RequestBuffering && (c.Length > 0 || !c.NeedsLength):
		c.Body, c.Unspooled = c.Req.Body(), true
		// its announced length is too large
		if _, err := c.Req.Body().Read(nil); err != nil && err != io.EOF {
			return http.StatusBadRequest
		}
		return 0
	}
	spooled, n, err := c.Req.Layer().Spool(int64(c.RequestMemory))
	if err == nil {
		c.Body, c.Length = spooled, n
		return 0
	}
	var path *os.PathError
	if errors.As(err, &path) && !errors.Is(err, conn.ErrSpoolFull) {
		c.Log.Error(c.Module+": request body cannot be held", "request_id", c.Req.ID(), "error", err)
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// ReadBody reads what has come of a body that is not spooled, and as much as fits of one that is.
func (c *Call) ReadBody(p []byte) (n int, err error) {
	if c.Left >= 0 {
		p = p[:min(int64(len(p)), c.Left)]
	}
	if c.Unspooled {
		n, err = c.Body.Read(p)
	} else {
		n, err = io.ReadFull(c.Body, p)
	}
	if c.Left > 0 {
		c.Left -= int64(n)
	}
	if n > 0 {
		c.taken = true
		if c.Left >= 0 {
			err = nil // the next read returns it again
		}
	}
	return n, err
}

// Serve tries upstreams until one answers, and returns the handler's status.
func (c *Call) Serve() int {
	if c.IgnoreClientAbort {
		c.Req.KeepWaiting(true)
	}
	for {
		err := c.attempt()
		switch {
		case err == nil:
			c.Resp.Layer().Complete()
			return c.tripper.Finish()
		case c.Up.Connected() && c.Up.Undecided() && c.upstreamFailed(err):
			c.Up.NoteFailure()
		}
		if !c.again(err) {
			return c.Fail(err)
		}
	}
}

// attempt gets a connection and lets the RoundTripper use it.
func (c *Call) attempt() (err error) {
	want := upstream.Reused
	switch {
	case c.needsFresh:
		want = upstream.Fresh
	case c.Unspooled || !c.Repeatable():
		want = c.Exclusive
	}
	if c.name != nil && c.Up.ServerName == "" && c.Up.NoName == nil {
		c.Up.ServerName, c.Up.NoName = c.serverName(c.Req)
	}
	c.Retryable = want == upstream.Reused
	if err := c.Req.Layer().TakeDescriptor(); err != nil {
		return err
	}
	c.counted = true
	// or a stream of HTTP/2
	if c.Stream, c.reused, err = c.Up.Connect(c.Req.Thread, want); c.Stream == nil {
		c.uncount()
	}
	if err != nil {
		return err
	}
	c.Flow.Begin(c.Req, c.Resp, int64(c.ResponseBuffering), c.Log, c.Unspooled)
	c.Left = c.Length
	return c.tripper.RoundTrip()
}

// Fail answers a request that has got no answer because of err, or cuts one that has begun.
func (c *Call) Fail(err error) int {
	if abandoned(err) {
		c.Resp.Abort()
		return c.Status
	}
	status := statusOf(err)
	if status == 0 { // the client's body has failed
		if !c.Resp.HeadSent() {
			c.Resp.Layer().Clear()
			return http.StatusBadRequest
		}
		c.Resp.Abort()
		return c.Status
	}
	args := []any{"request_id", c.Req.ID(), "target", c.Req.Target(), "error", err}
	if c.Up.HasSlot() {
		args = append(args, "upstream", c.Up.Name())
	}
	if c.Resp.HeadSent() {
		c.Log.Error(c.Module+": answer cut short", args...)
		c.Close()
		_ = c.Flow.Drain(true) // the client gets what has come, and then the cut
		if !c.reset(err) {
			c.Resp.Abort()
		}
		return c.Status
	}
	level := slog.LevelError
	if status < 500 || err == conn.ErrNoDescriptor { // the client's request cannot be passed on
		level = slog.LevelInfo
	}
	c.Log.Log(context.Background(), level, c.Module+": no answer", append(args, "status", status)...)
	c.Resp.Layer().Clear()
	if c.reset(err) {
		return c.Status
	}
	if status == http.StatusServiceUnavailable {
		c.Resp.Header().Set("Retry-After", "1")
	}
	return status
}

// Close closes the connection, if there is one, and gives its slot back.
func (c *Call) Close() {
	c.tripper.Drop()
	c.Up.Close(c.Stream)
	c.Stream = nil
	c.uncount()
}

// Keep gives the connection back for other requests, see upstream.Lease.Keep.
func (c *Call) Keep(limit time.Duration) {
	c.Up.Keep(c.Stream, limit)
	c.Stream = nil
	c.uncount()
}

// uncount notes that the request no longer holds a connection to an upstream.
func (c *Call) uncount() {
	if c.counted {
		c.counted = false
		c.Req.Layer().GiveDescriptor()
	}
}

// Free releases all resources of the call.
func (c *Call) Free() {
	if c.Up.HasSlot() {
		c.Close()
	}
	if c.Req != nil { // a tunnel has given up the request, whose entry was made before
		c.LogUpstream()
	}
	c.Flow.Drop()
}

// LogUpstream sets the upstream's values for the access log.
func (c *Call) LogUpstream() {
	l := c.Req.Layer()
	if !l.Logged() {
		return
	}
	l.SetUpstream(c.Up.Timing())
	l.SetAttempts(c.Up.Attempts())
	if c.splitName != "" {
		l.SetSplit(c.splitName)
	}
}
