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
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/modules/gateway"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/wire/cgi"
)

// serve is the handler.
func (m *module) serve(req *conn.Request, resp *conn.Response) int {
	if reverseproxy.Traces(req, resp) {
		return http.StatusMethodNotAllowed
	}
	prefix := strings.TrimSuffix(req.Prefix(), "/")
	path := cgi.Text(req.Layer().PathView())[len(prefix):] // valid until the handler returns
	if path == "" {
		return servefiles.RedirectToFolder(req, resp)
	}
	t := m.current()
	target, err := m.rules.Resolve(t.files, path)
	if err != nil {
		return m.statFailed(req, resp, err)
	}
	switch target.Kind {
	case cgi.Script:
		return m.run(req, resp, t, target)
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

// statFailed answers a request for a path whose stat fails other than by absence.
func (m *module) statFailed(req *conn.Request, resp *conn.Response, err error) int {
	m.Log.Warn("fastcgi: cannot look for the script", "request_id", req.ID(), "path", req.Path(),
		"error", err)
	switch {
	case errors.Is(err, os.ErrPermission):
		return http.StatusForbidden
	case sysio.Exhausted(err):
		resp.Header().Set("Retry-After", "1")
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// call is one request on its way to an upstream and back.
type call struct {
	gateway.Call
	m      *module
	tree   *tree
	target cgi.Target
	dec    wire.Decoder
	stderr stderr
}

// run lets an upstream run a script, and answers with what the script says.
func (m *module) run(req *conn.Request, resp *conn.Response, t *tree, target cgi.Target) int {
	c := calls.Get().(*call) // on the stack it would make that grow
	c.m, c.tree, c.target = m, t, target
	c.Begin(&m.Route, c, req, resp)
	defer c.done() // also when the thread is killed
	return c.Run(int64(m.set.MaxBodySize))
}

var calls = sync.Pool{New: func() any { return new(call) }}

func (c *call) done() {
	c.Free()
	*c = call{}
	calls.Put(c)
}
