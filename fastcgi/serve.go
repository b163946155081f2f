package fastcgi

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/fastcgi/internal/wire"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/cgi"
	"github.com/lwango/lwango/internal/relay"
	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
)

// serve is the handler.
func (m *module) serve(req *conn.Request, resp *conn.Response) int {
	if relay.Traces(req, resp) {
		return http.StatusMethodNotAllowed
	}
	prefix := strings.TrimSuffix(req.Prefix(), "/")
	if len(req.Layer().PathView()) == len(prefix) {
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
	m.Log.Warn("fastcgi: cannot look for the script", "request_id", req.ID(), "path", req.Path(), "error", err)
	switch {
	case errors.Is(err, os.ErrPermission):
		return http.StatusForbidden
	case sysio.Exhausted(err):
		resp.Header().Set("Retry-After", "1")
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// call is one request on its way to an upstream and back. A request that waits for a slow script
// holds no more than its call; so what is needed only while bytes move is not part of it.
type call struct {
	relay.Call
	m      *module
	prefix string
	tree   *tree
	target cgi.Target

	// Sending.
	buf  relay.Buffer // nil: there is nothing to send
	out  []byte       // the part of buf that is not sent yet
	end  bool         // the end of the body has been put into buf
	lost bool         // the upstream has not taken all of the request

	// Receiving.
	dec    wire.Decoder
	header *cgi.Header // nil: no byte of the header has come, or all of it has
	extra  bool        // bytes have come behind the end of the response
	stderr stderr

	answer answer

	// The upstream's, once the thread has waited for it beside the client; before that nil.
	readable, writable loop.Source
}

// run lets an upstream run a script, and answers with what the script says.
func (m *module) run(req *conn.Request, resp *conn.Response, prefix string, t *tree,
	target cgi.Target) int {
	c := calls.Get().(*call) // on the stack it would make that grow
	c.m, c.prefix, c.tree, c.target = m, prefix, t, target
	c.Begin(&m.Route, c, req, resp)
	defer c.done() // also when the thread is killed
	if m.set.MaxBodySize > 0 {
		limit := int64(m.set.MaxBodySize)
		req.Body().SetLimit(limit)
		if req.ContentLength() > limit {
			return http.StatusRequestEntityTooLarge
		}
	}
	// The body comes before the connection, since PHP-FPM gives a worker to every connection; without
	// request_buffering the application may answer before it comes. The length has to be known as
	// well: PHP-FPM reads as many bytes as CONTENT_LENGTH announces, and none without it.
	if status := c.TakeBody(); status != 0 {
		return status
	}
	return c.Serve()
}

// Drop implements relay.Talk.
func (c *call) Drop() {
	c.free()
	c.dropHeader()
}

var calls = sync.Pool{New: func() any { return new(call) }}

func (c *call) done() {
	c.Free()
	*c = call{}
	calls.Put(c)
}

func (c *call) logStderr() {
	if c.stderr.any() {
		c.stderr.log(c.Log, c.Req.ID(), c.target.Name)
	}
}
