package proxy

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/upstream/httpclient"
)

// maxHops is how many times a request may come through servers of this kind. One that has an
// upstream that leads back to it would otherwise go on until no descriptor is left.
const maxHops = 10

// expectFor is how long a body is held back for an upstream that does not say whether it wants it.
// It may know nothing of expectations (RFC 9110 section 10.1.1). It is a variable only for the
// tests.
var expectFor = time.Second

var errUpgrade = errors.New("the upstream has changed to a protocol that was not asked for")

// call is one request on its way to an upstream and back. A request that waits for a slow upstream
// holds no more than its call; so what is needed only while bytes move is not part of it.
type call struct {
	x httpclient.Exchange // keeps some memory from call to call
	callState
}

// callState is what a call begins with anew.
type callState struct {
	reverseproxy.Call
	m *module

	options   options
	protocols string // those to which the client would change; empty: none

	// Sending.
	sent        bool      // all of the request has been written or is held
	sendStopped bool      // the upstream does not take all of the request
	expects     bool      // the body waits for 100 (Continue), until expired
	expired     time.Time // of use only meanwhile

	// Receiving.
	begun       time.Duration // by loop.Now, when the head of the answer has; 0: it has not
	headed      bool          // the head is complete
	intercepted bool          // a page of the site takes the place of the answer
	named       options       // in Connection fields of the upstream
	done        bool          // the answer is complete
	pushed      bool          // all that has come was flushed
	unparsed    []byte        // what has come behind a 101
	// the client takes no more, and the exchange goes on (ignore_client_abort)
	gone bool

	// A body that the client does not get.
	dropped   int // bytes
	dropUntil time.Time
}

// serve is the handler.
func (m *module) serve(req *conn.Request, resp *conn.Response) int {
	if reverseproxy.Traces(req, resp) {
		return http.StatusMethodNotAllowed
	}
	c := calls.Get().(*call) // on the stack it would make that grow
	c.m = m
	c.Begin(&m.Route, c, req, resp)
	defer c.free() // also when the thread is killed
	if _, ok := req.Layer().HeaderView("Via"); ok && hops(req.Header()) >= maxHops {
		m.Log.Error("proxy: the request has come through this server too many times",
			"request_id", req.ID(), "target", req.Target())
		return http.StatusLoopDetected
	}
	if m.mapBack != nil && !c.destinationsInside() { // RFC 4918 sections 9.8.5 and 9.9.4
		return http.StatusBadGateway
	}
	if _, ok := req.Layer().HeaderView("Connection"); ok {
		c.options.read(req.Layer())
		c.protocols = protocols(req, &c.options)
	}
	if status := c.TakeBody(); status != 0 {
		return status
	}
	if c.Unspooled {
		req.Body().KeepTrailer()
		c.expects = req.Body().Expects()
	}
	return c.Serve()
}

// hops counts how often the Via fields name this kind of server.
func hops(h *conn.Header) (n int) {
	for _, via := range h.Values("Via") {
		n += strings.Count(via, " lwango")
	}
	return n
}

// chunked reports that the body is sent in chunks.
func (c *call) chunked() bool { return c.Length < 0 }

// Finish implements reverseproxy.RoundTripper.
func (c *call) Finish() int {
	if c.Status == http.StatusSwitchingProtocols {
		c.LogUpstream() // the access log's entry is made as the tunnel begins
		return c.tunnel(c.unparsed)
	}
	if err := c.Flow.Drain(true); err != nil {
		return c.Fail(err)
	}
	if c.TakesAccel(c.Redirect, c.Sendfile) {
		return c.SendAccel()
	}
	return c.Status
}

// Drop implements reverseproxy.RoundTripper.
func (c *call) Drop() { c.x.End() }

var calls = sync.Pool{New: func() any { return new(call) }}

func (c *call) free() {
	c.Free()
	c.x.Reset()
	c.callState = callState{}
	calls.Put(c)
}
