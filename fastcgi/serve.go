package fastcgi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/fastcgi/internal/cgi"
	"github.com/lwango/lwango/fastcgi/internal/wire"
	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/stream"
)

// serve is the handler.
func (m *module) serve(req *conn.Request, resp *conn.Response) int {
	if req.Method() == http.MethodTrace {
		// A page's script could read from its answer what the browser hides from it (RFC 9110 section 9.3.8).
		resp.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		return http.StatusMethodNotAllowed
	}
	prefix := strings.TrimSuffix(req.Prefix(), "/")
	if len(req.PathView()) == len(prefix) {
		return redirect(req, resp)
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
		return redirect(req, resp)
	case cgi.BadRequest:
		return http.StatusBadRequest
	}
	return http.StatusNotFound
}

// redirect leads to the same path with a slash at its end. The path is escaped again, as in serve_files.
func redirect(req *conn.Request, resp *conn.Response) int {
	location := strings.ReplaceAll((&url.URL{Path: req.Path()}).EscapedPath(), `\`, "%5C") + "/"
	if query := req.RawQuery(); query != "" {
		location += "?" + http1.EscapeQuery(query)
	}
	resp.Header().Set("Location", location)
	if method := req.Method(); method == http.MethodGet || method == http.MethodHead {
		return http.StatusMovedPermanently
	}
	return http.StatusPermanentRedirect // the body is to be sent again
}

// unknown answers where the file system does not say what there is.
func (m *module) unknown(req *conn.Request, resp *conn.Response, err error) int {
	m.log.Warn("fastcgi: cannot look for the script", "path", req.Path(), "error", err)
	switch {
	case errors.Is(err, os.ErrPermission):
		return http.StatusForbidden
	case exhausted(err):
		resp.Header().Set("Retry-After", "1")
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// inMemory is how much of a body is held in memory before it goes to a file. With its stack, its
// input and all else an upload that stands still holds 24 KiB at most.
const inMemory = 12 << 10

// call is one request on its way to an upstream and back. It is all there is while the upstream thinks, so what is
// needed only while bytes move is not in it.
type call struct {
	m      *module
	req    *conn.Request
	resp   *conn.Response
	prefix string
	tree   *tree
	target cgi.Target

	body      io.Reader // what is left of it
	length    int64
	unspooled bool // body is the client's, as it comes

	// The connection.
	at      *upstream // nil: none
	stream  *stream.Stream
	old     bool // it has served another request
	tried   []bool
	retried bool

	// Sending.
	buf  buffer // nil: there is nothing to send
	out  []byte // what was not sent of it
	left int64  // of the body, not in the buffer yet
	end  bool   // the end of the body is in the buffer
	lost bool   // the upstream would not take all of it

	// Receiving.
	dec    wire.Decoder
	heard  bool        // something has come
	header *cgi.Header // nil: nothing of it has come, or it is complete
	extra  bool        // something came behind the end
	stderr stderr

	answer answer
	flow   flow
}

// run has an upstream run a script.
func (m *module) run(req *conn.Request, resp *conn.Response, prefix string, t *tree, target cgi.Target) int {
	c := calls.Get().(*call) // on the stack it would have that grow
	c.m, c.req, c.resp, c.prefix, c.tree, c.target = m, req, resp, prefix, t, target
	defer c.done() // also when the thread is killed
	if m.set.MaxBodySize > 0 {
		limit := int64(m.set.MaxBodySize)
		req.Body().SetLimit(limit)
		if req.ContentLength() > limit {
			return http.StatusRequestEntityTooLarge
		}
	}
	if err := c.takeBody(); err != nil {
		return c.failedBody(err)
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
		if c.stream != nil && !c.heard && !c.old && c.choice() && silent(err) {
			c.at.broke()
		}
		if !c.again(err) {
			return c.fail(err)
		}
	}
}

// takeBody gets the body ready to be sent. PHP-FPM gives a worker to every connection, so nothing is begun before; and
// it takes a body at the length that was announced, and none at all without one.
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

// failedBody answers where the body did not come. What the client has done wrong decides conn.
func (c *call) failedBody(err error) int {
	var path *os.PathError
	if errors.As(err, &path) {
		c.m.log.Error("fastcgi: request body cannot be held", "request", c.req.ID(), "error", err)
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// attempt has the request answered by an upstream. Without an error, the answer is complete.
func (c *call) attempt() error {
	if c.unspooled {
		// What goes with the head is waited for before there is a connection, or a buffer.
		if err := c.req.Body().Await(); err != nil {
			return bodyError(err)
		}
	}
	if err := c.connect(); err != nil {
		return err
	}
	// That the parameters cannot be written is seen only here, but to connect may take a while, for which the buffer
	// would be held.
	if err := c.begin(); err != nil {
		return err
	}
	return c.exchange()
}

// silent reports that err is the upstream's: it has closed the connection, or nothing has moved on it for too long.
func silent(err error) bool {
	return errors.Is(err, errCut) || errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, errBody)
}

// again reports whether another attempt can be made after that error, and gets ready for it.
//
// Once something was sent, nobody knows whether the script has run. Methods that may be repeated are, once, if nothing
// has come back: on a new connection where the one that was kept had come to its end, or else by another upstream.
func (c *call) again(err error) bool {
	if c.retried || c.heard || c.at == nil || c.unspooled || !errors.Is(err, errCut) ||
		!repeatable(c.req.Method()) {
		return false
	}
	if !c.old {
		c.exclude(c.at)
		if c.untried() == 0 {
			return false
		}
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

// exclude has no other attempt be made with u.
func (c *call) exclude(u *upstream) {
	if c.tried == nil {
		c.tried = make([]bool, len(c.m.group.upstreams))
	}
	c.tried[u.index] = true
}

// fail answers where the upstream did not, or not to the end.
func (c *call) fail(err error) int {
	if left(err) || errors.Is(err, errClient) {
		c.resp.Abort()
		return c.answer.status
	}
	status := statusOf(err)
	if status == 0 { // it is the client's body that has failed
		if !c.resp.HeadSent() {
			c.resp.Clear()
			return http.StatusBadRequest
		}
		c.resp.Abort()
		return c.answer.status
	}
	args := []any{"request", c.req.ID(), "target", c.req.Target(), "error", err}
	if c.at != nil {
		args = append(args, "upstream", c.at.name)
	}
	if c.resp.HeadSent() {
		c.m.log.Error("fastcgi: response cut short", args...)
		c.close()
		_ = c.drain() // what has come is the client's, and then the cut
		c.resp.Abort()
		return c.answer.status
	}
	level := slog.LevelError
	if status < 500 { // it is the client's request that cannot be passed on
		level = slog.LevelInfo
	}
	c.m.log.Log(context.Background(), level, "fastcgi: no response", append(args, "status", status)...)
	c.resp.Clear()
	if status == http.StatusServiceUnavailable {
		c.resp.Header().Set("Retry-After", "1")
	}
	return status
}

// statusOf is the status for a client that has got nothing yet; 0: it is for conn to say.
func statusOf(err error) int {
	var bad *wire.Error
	switch {
	case errors.As(err, &bad):
		return bad.Status
	case errors.Is(err, errQueueFull), errors.Is(err, errNoPlace), errors.Is(err, errBacklog),
		errors.Is(err, syscall.EADDRNOTAVAIL), exhausted(err): // no port is left, of those that lead there
		return http.StatusServiceUnavailable
	case errors.Is(err, errBody):
		return 0
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// close ends what there is of a connection, and lets go of the buffers.
func (c *call) close() {
	if c.stream != nil {
		_ = c.stream.Close()
		c.stream = nil
	}
	c.free()
	if c.at != nil {
		c.m.group.release(c.at, -1)
		c.at = nil
	}
	c.dropHeader()
}

var calls = sync.Pool{New: func() any { return new(call) }}

func (c *call) done() {
	c.close()
	c.flow.spool.drop()
	*c = call{}
	calls.Put(c)
}

func (c *call) logStderr() { c.stderr.log(c.m.log, c.req.ID(), c.target.Name) }
