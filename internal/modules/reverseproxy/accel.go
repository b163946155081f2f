package reverseproxy

import (
	"cmp"
	"strings"

	"github.com/lwango/lwango/conn"
)

// Accel answers requests with the file or route that an upstream names in X-Accel-Redirect or
// X-Sendfile. It may be used on any number of loops at once. The modules pass it to Open: a module,
// servefiles, sends files, and this package imports no module.
type Accel interface {
	// Handles reports whether the Accel follows these values of X-Accel-Redirect and X-Sendfile; ""
	// stands for a field that is absent.
	Handles(redirect, sendfile string) bool

	// Send answers with the file that the upstream names in redirect, or in sendfile if redirect
	// is "", or lets the route answer that redirect leads to. status is that of the upstream's
	// answer. It returns the status for the handler to return; an error says why Send could not
	// answer.
	Send(req *conn.Request, resp *conn.Response, redirect, sendfile string, status int) (int, error)
}

// TakesAccel reports whether these values of X-Accel-Redirect and X-Sendfile replace the body of
// the answer. "" stands for a field that is absent.
func (r *Route) TakesAccel(redirect, sendfile string) bool {
	return (redirect != "" || sendfile != "") && r.accel.Handles(redirect, sendfile)
}

// SendAccel sends the file that the upstream names, with the upstream's header fields.
func (c *Call) SendAccel() int {
	redirect, sendfile := strings.Clone(c.Redirect), strings.Clone(c.Sendfile)
	c.Close() // another route may wait for a connection to the same upstream
	status, err := c.accel.Send(c.Req, c.Resp, redirect, sendfile, c.Status)
	if err != nil {
		c.Log.Error(c.Module+": X-Accel-Redirect or X-Sendfile cannot be followed",
			"request_id", c.Req.ID(), "target", c.Req.Target(), "to", cmp.Or(redirect, sendfile),
			"error", err, "status", status)
		c.Resp.Layer().Clear()
	}
	return status
}
