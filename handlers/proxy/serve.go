package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/relay"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

const (
	// inMemory is how much of a request's body is held in memory before it goes to a file.
	inMemory = 12 << 10
	// maxHops is how many times a request may come through servers of this kind. One that has an
	// upstream that leads back to it would otherwise go on until no descriptor is left.
	maxHops = 10
)

// expectFor is how long a body is held back for an upstream that does not say whether it wants it.
// It may know nothing of expectations (RFC 9110 section 10.1.1). It is a variable only for the
// tests.
var expectFor = time.Second

var errUpgrade = errors.New("the upstream has changed to a protocol that was not asked for")

// call is one request on its way to an upstream and back. A request that waits for a slow upstream
// holds no more than its call; so what is needed only while bytes move is not part of it.
type call struct {
	m    *module
	req  *conn.Request
	resp *conn.Response

	options   options
	protocols string // those to which the client would change; empty: none

	body      io.Reader // the rest of the body
	length    int64     // -1: not known
	unspooled bool      // body is read from the client as it comes
	taken     bool      // some of it has been read

	// The connection.
	up      upstream.Lease
	stream  *stream.Stream
	x       client.Exchange
	old     bool // stream has served another request
	renewed bool // a kept connection has ended under the request, which is for new ones since

	// Sending.
	left    int64 // bytes of the body that have not been read yet; -1: not known
	sent    bool  // all of the request has been written or is held
	lost    bool  // the upstream does not take all of the request
	expects bool  // the body waits for 100 (Continue), until expired
	expired time.Time

	// Receiving.
	begun  time.Time // when the head of the answer has begun
	headed bool      // the head is complete
	named  options   // in Connection fields of the upstream
	done   bool      // the answer is complete
	status int
	pushed bool   // all that has come was flushed
	rest   []byte // what has come behind a 101

	redirect, sendfile string // X-Accel-Redirect and X-Sendfile
	informed           bool   // the client has got an interim response of an upstream

	// A body that the client does not get.
	discard   bool
	dropped   int // bytes
	dropUntil time.Time

	flow relay.Flow
}

// serve is the handler.
func (m *module) serve(req *conn.Request, resp *conn.Response) int {
	if req.Method() == http.MethodTrace {
		// From the answer a page's script could read what the browser hides from it (RFC 9110
		// section 9.3.8).
		resp.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		return http.StatusMethodNotAllowed
	}
	c := calls.Get().(*call) // on the stack it would make that grow
	c.m, c.req, c.resp = m, req, resp
	c.up = m.group.Lease()
	c.up.Tries, c.up.Within = m.set.RetryTries, m.set.RetryTime
	c.up.Stay = m.retry&onConnect == 0
	defer c.free() // also when the thread is killed
	if _, ok := req.HeaderView("Via"); ok && hops(req.Header()) >= maxHops {
		m.log.Error("proxy: the request has come through this server too many times",
			"request_id", req.ID(), "target", req.Target())
		return http.StatusLoopDetected
	}
	if _, ok := req.HeaderView("Connection"); ok {
		c.options.read(req.Header())
		c.protocols = protocols(req, &c.options)
	}
	if err := c.takeBody(); err != nil {
		return relay.Untaken(req, m.log, "proxy", err)
	}
	for {
		err := c.attempt()
		if err == nil {
			return c.finish()
		}
		if c.stream != nil && !c.x.Heard() && relay.Silent(err, client.ErrCut) && !c.outlived(err) {
			c.up.Broke()
		}
		if !c.again(err) {
			return c.fail(err)
		}
	}
}

// hops counts how often the Via fields name this kind of server.
func hops(h *conn.Header) (n int) {
	for _, via := range h.Values("Via") {
		n += strings.Count(via, " lwango")
	}
	return n
}

// takeBody gets the body ready to be sent: it is there before an upstream is asked, unless the
// configuration says otherwise.
func (c *call) takeBody() error {
	c.length = c.req.ContentLength()
	switch {
	case c.length == 0:
		return nil
	case !c.m.set.RequestBuffering:
		c.req.Body().KeepTrailer()
		c.body, c.unspooled = c.req.Body(), true
		c.expects = c.req.Body().Expects()
		return nil
	}
	spooled, n, err := c.req.Spool(inMemory)
	if err != nil {
		return err
	}
	c.body, c.length = spooled, n
	return nil
}

// chunked reports that the body is sent in chunks.
func (c *call) chunked() bool { return c.length < 0 }

// attempt sends the request to an upstream and takes the answer. Without an error, that is
// complete.
func (c *call) attempt() error {
	want := upstream.Kept
	switch {
	case c.renewed:
		want = upstream.Fresh
	case c.unspooled || !c.repeatable():
		want = upstream.JustUsed
	}
	var err error
	if c.stream, c.old, err = c.up.Connect(c.req.Thread, want); err != nil {
		return err
	}
	c.x.HeadLimit, c.x.KeepTrailer = int(c.m.set.MaxHeaderSize), true
	c.x.Lenient = c.m.set.Lenient
	c.x.Begin(c.stream, c.up.Over(c.stream), c.req.Method())
	return c.exchange()
}

// finish ends the handler after a complete answer.
func (c *call) finish() int {
	if c.status == http.StatusSwitchingProtocols {
		c.req.SetUpstream(c.up.Asked()) // the access log's entry is made as the tunnel begins
		return c.tunnel(c.rest)
	}
	if err := c.flow.Drain(true); err != nil {
		return c.fail(err)
	}
	if c.m.accel.Takes(c.redirect, c.sendfile) {
		return c.sendAccel()
	}
	return c.status
}

// sendAccel sends the file that the upstream names, with the upstream's header fields.
func (c *call) sendAccel() int {
	c.close() // another route may wait for a connection to the same upstream
	status, sent := c.m.accel.Send(c.req, c.resp, c.redirect, c.sendfile, c.status)
	if !sent {
		c.m.log.Error("proxy: file of X-Accel-Redirect or X-Sendfile not sent",
			"request_id", c.req.ID(), "target", c.req.Target(),
			"file", c.redirect+c.sendfile, "status", status)
		c.resp.Clear()
	}
	return status
}

// fail answers a request that has got no answer because of err, or cuts one that has begun.
func (c *call) fail(err error) int {
	if errors.Is(err, loop.ErrClientGone) || errors.Is(err, loop.ErrCanceled) ||
		errors.Is(err, relay.ErrClient) {
		c.resp.Abort()
		return c.status
	}
	status := relay.Status(err)
	if status == 0 { // the client's body has failed
		if !c.resp.HeadSent() {
			c.resp.Clear()
			return http.StatusBadRequest
		}
		c.resp.Abort()
		return c.status
	}
	args := []any{"request_id", c.req.ID(), "target", c.req.Target(), "error", err}
	if c.up.Held() {
		args = append(args, "upstream", c.up.Name())
	}
	if c.resp.HeadSent() {
		c.m.log.Error("proxy: answer cut short", args...)
		c.close()
		_ = c.flow.Drain(true) // the client gets what has come, and then the cut
		c.resp.Abort()
		return c.status
	}
	c.m.log.Error("proxy: no answer", append(args, "status", status)...)
	c.resp.Clear()
	if status == http.StatusServiceUnavailable {
		c.resp.Header().Set("Retry-After", "1")
	}
	return status
}

// close closes the connection, if there is one, and lets go of the place.
func (c *call) close() {
	c.x.End()
	c.up.Close(c.stream)
	c.stream = nil
}

var calls = sync.Pool{New: func() any { return new(call) }}

func (c *call) free() {
	c.close()
	if c.req != nil { // a tunnel has given up the request, whose entry was made before
		c.req.SetUpstream(c.up.Asked())
	}
	c.flow.Drop()
	x := c.x
	x.Reset()
	*c = call{}
	c.x = x
	calls.Put(c)
}
