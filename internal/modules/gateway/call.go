package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/wire/cgi"
	"github.com/lwango/lwango/loop"
)

// Call is one request on its way to an application and back. A request that waits for a slow script
// holds no more than its Call; so values that are needed only while bytes move are not part of it.
// Only the request's thread may use it.
type Call struct {
	reverseproxy.Call
	protocol Protocol

	// Sending.
	buf         loop.Buffer // nil: there is nothing to send
	out         []byte      // the part of buf that is not sent yet
	End         bool        // the end of the body has been put into buf
	sendStopped bool        // the upstream has not taken all of the request

	// Receiving.
	done   bool        // the answer is complete
	header *cgi.Header // nil: no byte of the header has come, or all of it has
	answer answer

	// The upstream's, once the thread has waited for it beside the client; before that nil.
	readable, writable loop.Source
}

// Protocol is a module's part of a Call.
type Protocol interface {
	reverseproxy.RoundTripper
	// AppendHead begins an attempt, and appends the bytes before the request's body to an empty
	// buffer. It may return a part of the buffer that begins later.
	AppendHead(dst []byte) ([]byte, error)
	// AppendBody appends the next piece of the body, by Call.ReadBody, if out has room for one. Behind
	// the last piece it sets End, perhaps in a call of its own. An empty buffer has room for both.
	AppendBody(out []byte) ([]byte, error)
	// Take takes received bytes, and passes those of the answer to Answer. At the end of the answer it
	// calls Ended.
	Take(p []byte) error
	// ConnectionClosed is called when the application has closed the connection. It returns nil if
	// that ends the answer.
	ConnectionClosed() error
	// Script returns the script for the log, "" if the request's target is enough. A log may keep it.
	Script() string
	// Pause is called when the application sends nothing more for the moment, and at the end.
	Pause()
}

// Begin begins a call on a route. Free must be called in the end, also if the thread is killed.
func (c *Call) Begin(r *Route, p Protocol, req *conn.Request, resp *conn.Response) {
	c.protocol = p
	c.Call.Begin(&r.Route, p, req, resp)
}

// Run lets an application answer, and returns the handler's status. limit is for the body; 0: only
// the server's limit.
//
// The body comes before the connection, since PHP-FPM and uWSGI give a worker to every connection;
// without request_buffering the application may answer before it comes. The length has to be known
// as well: the application reads as many bytes as CONTENT_LENGTH announces, and none without it.
func (c *Call) Run(limit int64) int {
	if limit > 0 {
		c.Req.Body().SetLimit(limit)
		if c.Req.ContentLength() > limit {
			return http.StatusRequestEntityTooLarge
		}
	}
	if status := c.TakeBody(); status != 0 {
		return status
	}
	return c.Serve()
}

// Drop implements reverseproxy.RoundTripper.
func (c *Call) Drop() {
	c.free()
	c.dropHeader()
}

// headers are for the time in which a response's header comes in.
var headers = sync.Pool{New: func() any { return new(cgi.Header) }}

func (c *Call) dropHeader() {
	if c.header != nil {
		c.header.Reset()
		headers.Put(c.header)
		c.header = nil
	}
}

// LogAt logs something about the request.
func (c *Call) LogAt(level slog.Level, text string, args ...any) {
	all := []any{"request_id", c.Req.ID()}
	if script := c.protocol.Script(); script != "" {
		all = append(all, "script", script)
	} else {
		all = append(all, "target", c.Req.Target())
	}
	c.Log.Log(context.Background(), level, c.Module+": "+text, append(all, args...)...)
}
