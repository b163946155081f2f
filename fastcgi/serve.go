package fastcgi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/fastcgi/internal/cgi"
	"github.com/lwango/lwango/fastcgi/internal/wire"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/relay"
	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// serve is the handler.
func (m *module) serve(req *conn.Request, resp *conn.Response) int {
	if req.Method() == http.MethodTrace {
		// From the answer a page's script could read what the browser hides from it (RFC 9110
		// section 9.3.8).
		resp.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		return http.StatusMethodNotAllowed
	}
	prefix := strings.TrimSuffix(req.Prefix(), "/")
	if len(req.PathView()) == len(prefix) {
		return servefiles.RedirectToFolder(req, resp)
	}
	t := m.current()
	target, err := m.rules.Resolve(t.files, req.SubPath())
	if err != nil {
		return m.unknown(req, resp, err)
	}
	switch target.Kind {
	case cgi.Script:
		return m.run(req, resp, prefix, t, target)
	case cgi.Static:
		if t.send != nil {
			return t.send(req, resp)
		}
	case cgi.Redirect:
		return servefiles.RedirectToFolder(req, resp)
	case cgi.BadRequest:
		return http.StatusBadRequest
	}
	return http.StatusNotFound
}

// unknown answers a request for a path whose stat fails other than by absence.
func (m *module) unknown(req *conn.Request, resp *conn.Response, err error) int {
	m.log.Warn("fastcgi: cannot look for the script", "request_id", req.ID(), "path", req.Path(), "error", err)
	switch {
	case errors.Is(err, os.ErrPermission):
		return http.StatusForbidden
	case sysio.Exhausted(err):
		resp.Header().Set("Retry-After", "1")
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// inMemory is how much of a body is held in memory before it goes to a file. An upload that stands
// still holds 24 KiB at most, with its stack, its input and all else.
const inMemory = 12 << 10

// call is one request on its way to an upstream and back. A request that waits for a slow script
// holds no more than its call; so what is needed only while bytes move is not part of it.
type call struct {
	m      *module
	req    *conn.Request
	resp   *conn.Response
	prefix string
	tree   *tree
	target cgi.Target

	body      io.Reader // the rest of the body
	length    int64
	unspooled bool // body is read from the client as it comes

	// The connection.
	up      upstream.Lease
	stream  *stream.Stream
	old     bool // stream has served another request
	retried bool

	// Sending.
	buf  relay.Buffer // nil: there is nothing to send
	out  []byte       // the part of buf that is not sent yet
	left int64        // bytes of the body that have not been in buf yet
	end  bool         // the end of the body has been put into buf
	lost bool         // the upstream has not taken all of the request

	// Receiving.
	dec    wire.Decoder
	heard  bool        // a byte of the response has come
	header *cgi.Header // nil: no byte of the header has come, or all of it has
	extra  bool        // bytes have come behind the end of the response
	stderr stderr

	answer answer
	flow   flow
}

// run lets an upstream run a script, and answers with what the script says.
func (m *module) run(req *conn.Request, resp *conn.Response, prefix string, t *tree,
	target cgi.Target) int {
	c := calls.Get().(*call) // on the stack it would make that grow
	c.m, c.req, c.resp, c.prefix, c.tree, c.target = m, req, resp, prefix, t, target
	c.up = m.group.Lease()
	defer c.done() // also when the thread is killed
	if m.set.MaxBodySize > 0 {
		limit := int64(m.set.MaxBodySize)
		req.Body().SetLimit(limit)
		if req.ContentLength() > limit {
			return http.StatusRequestEntityTooLarge
		}
	}
	if err := c.takeBody(); err != nil {
		return relay.Untaken(req, m.log, "fastcgi", err)
	}
	if m.set.IgnoreClientAbort {
		req.KeepWaiting(true)
	}
	for {
		err := c.attempt()
		c.logStderr()
		if err == nil {
			return c.finish()
		}
		if c.stream != nil && !c.heard && !c.old && relay.Silent(err, errCut) {
			c.up.Broke()
		}
		if !c.again(err) {
			return c.fail(err)
		}
	}
}

// takeBody gets the body ready to be sent. That comes before the connection, since PHP-FPM gives a
// worker to every connection; without request_buffering the application may answer before the body
// comes. The length has to be known as well: PHP-FPM reads as many bytes as
// CONTENT_LENGTH announces, and none without it.
func (c *call) takeBody() error {
	body := c.req.Body()
	c.length = c.req.ContentLength()
	switch {
	case c.length == 0:
		return nil
	case c.length > 0 && !c.m.set.RequestBuffering:
		c.body, c.unspooled = body, true
		return nil
	}
	spooled, n, err := c.req.Spool(inMemory)
	if err != nil {
		return err
	}
	c.body, c.length = spooled, n
	return nil
}

// attempt sends the request to an upstream and takes the answer. Without an error, that is
// complete.
func (c *call) attempt() error {
	if err := c.connect(); err != nil {
		return err
	}
	c.flow.begin(c)
	// Parameters that cannot be sent are found out only here, with a connection at hand. If they
	// were written earlier, the call would hold their buffer while it connects.
	if err := c.begin(); err != nil {
		return err
	}
	return c.exchange()
}

// again reports whether the call can make another attempt after that error, and gets ready for it.
//
// Once bytes were sent, the proxy cannot know whether the script has run. So only requests of a
// repeatable method are sent again, once, and only if no byte has come back: on a new connection if
// the first one was a kept one, or else to another upstream.
func (c *call) again(err error) bool {
	if c.retried || c.heard || !c.up.Held() || c.unspooled || !errors.Is(err, errCut) ||
		!repeatable(c.req.Method()) {
		return false
	}
	if !c.old && !c.up.Exclude() {
		return false
	}
	if seeker, ok := c.body.(io.Seeker); ok {
		if _, err := seeker.Seek(0, io.SeekStart); err != nil {
			return false
		}
	}
	c.retried = true
	c.close()
	c.dec.Reset()
	c.lost, c.end, c.extra = false, false, false
	return true
}

// fail answers a request that has got no answer because of err, or cuts one that has begun.
func (c *call) fail(err error) int {
	if errors.Is(err, loop.ErrClientGone) || errors.Is(err, loop.ErrCanceled) ||
		errors.Is(err, relay.ErrClient) {
		c.resp.Abort()
		return c.answer.status
	}
	status := statusOf(err)
	if status == 0 { // the client's body has failed
		if !c.resp.HeadSent() {
			c.resp.Clear()
			return http.StatusBadRequest
		}
		c.resp.Abort()
		return c.answer.status
	}
	args := []any{"request_id", c.req.ID(), "target", c.req.Target(), "error", err}
	if c.up.Held() {
		args = append(args, "upstream", c.up.Name())
	}
	if c.resp.HeadSent() {
		c.m.log.Error("fastcgi: response cut short", args...)
		c.close()
		_ = c.drain() // the client gets what has come, and then the cut
		c.resp.Abort()
		return c.answer.status
	}
	level := slog.LevelError
	if status < 500 { // the client's request cannot be passed on
		level = slog.LevelInfo
	}
	c.m.log.Log(context.Background(), level, "fastcgi: no response",
		append(args, "status", status)...)
	c.resp.Clear()
	if status == http.StatusServiceUnavailable {
		c.resp.Header().Set("Retry-After", "1")
	}
	return status
}

// statusOf returns the status for a client that has got no byte yet; 0: conn decides.
func statusOf(err error) int {
	var bad *wire.Error
	if errors.As(err, &bad) {
		return bad.Status
	}
	return relay.Status(err)
}

// close closes the connection, if there is one, and lets go of the place and the buffers.
func (c *call) close() {
	if c.stream != nil {
		_ = c.stream.Close()
		c.stream = nil
	}
	c.free()
	c.up.Release()
	c.dropHeader()
}

var calls = sync.Pool{New: func() any { return new(call) }}

func (c *call) done() {
	c.close()
	c.req.SetUpstream(c.up.Asked())
	c.flow.Drop()
	*c = call{}
	calls.Put(c)
}

func (c *call) logStderr() {
	if c.stderr.any() {
		c.stderr.log(c.m.log, c.req.ID(), c.target.Name)
	}
}
