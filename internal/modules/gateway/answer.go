package gateway

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/wire/cgi"
)

var errShort = errors.New("response body is shorter than its Content-Length")

// answer is the state of a response once its header is complete.
type answer struct {
	begun      bool
	buffered   bool  // a pause of the application does not flush it
	clientGone bool  // the client takes no more, and the script runs on
	bodiless   bool  // a response of its status, or to this method, has no body
	interim    uint8 // how many interim responses have come
	length     int64 // of the body, as it was announced; -1: it was not
	got        int64 // received bytes of the body
}

// Begun reports whether the response's header is complete.
func (c *Call) Begun() bool { return c.answer.begun }

// Answer takes a piece of what the script writes. With line, its header may begin with a status
// line of HTTP.
func (c *Call) Answer(p []byte, line bool) error {
	for !c.answer.begun {
		if c.header == nil {
			c.header = headers.Get().(*cgi.Header)
			c.header.Limit, c.header.StatusLine = int(c.MaxHeaderSize), line
		}
		n, done, err := c.header.Parse(p)
		if err != nil || !done {
			return err
		}
		p = p[n:]
		if !c.header.Interim() {
			if err := c.open(c.header); err != nil {
				return err
			}
			c.dropHeader()
		} else if err := c.inform(c.header); err != nil {
			return err
		}
	}
	return c.content(p)
}

// maxInterim is how many interim responses may come. Without a bound an application could keep a
// request busy for ever.
const maxInterim = 64

var errInterim = errors.New("too many interim responses")

// inform passes on an interim response. It drops 100 (Continue), which the application need not
// send: the body comes anyhow.
func (c *Call) inform(h *cgi.Header) error {
	if c.answer.interim++; c.answer.interim > maxInterim {
		return errInterim
	}
	defer h.Reset()
	if h.Status == http.StatusContinue || c.answer.clientGone {
		return nil
	}
	var out conn.Header
	for _, f := range h.Fields {
		if !c.Hides(f.Name) {
			out.Add(f.Name, f.Value)
		}
	}
	c.SentInterim = true
	return c.clientGone(c.Flow.Inform(h.Status, &out))
}

// open makes the head of the answer from the response's header.
func (c *Call) open(h *cgi.Header) error {
	if err := c.NoteStatus(h.Status); err != nil {
		return err
	}
	c.answer.begun, c.Status, c.answer.length = true, h.Status, h.Length
	c.answer.bodiless = c.Req.Method() == http.MethodHead || h.Status == 204 || h.Status == 304
	if h.Buffering != 0 {
		c.answer.buffered = h.Buffering == cgi.Buffered
		if !c.answer.buffered {
			c.Flow.Unbuffered()
		}
	}
	c.BothMaySend()
	out := c.Resp.Header()
	c.Stick(out)
	if c.Intercepts(h.Status) {
		c.intercept(h, out)
		return nil
	}
	c.Resp.Layer().Relay(h.Status, h.Reason)
	parsed := out.Len()
	for i := range h.Fields {
		if f := &h.Fields[i]; len(c.HideHeader) == 0 || !c.Hides(f.Name) {
			out.Add(f.Name, f.Value)
		}
	}
	c.Resp.Layer().MarkValid(parsed)
	if h.HasControl || h.Status == http.StatusResetContent {
		c.applyControl(h)
	}
	if c.answer.length >= 0 {
		out.Set("Content-Length", h.Digits)
	}
	return nil
}

// intercept drops an answer that a page of the site replaces.
//
//go:noinline
func (c *Call) intercept(h *cgi.Header, out *conn.Header) {
	c.drop()
	for _, f := range h.Fields {
		if reverseproxy.BelongsToStatus(h.Status, f.Name) && !c.Hides(f.Name) {
			out.Add(f.Name, f.Value)
		}
	}
}

// applyControl acts on fields for the server, which few responses have.
//
//go:noinline
func (c *Call) applyControl(h *cgi.Header) {
	c.Resp.Layer().CacheFor(h.Expires)
	if c.TakesAccel(h.Redirect, h.Sendfile) {
		c.Redirect, c.Sendfile = h.Redirect, h.Sendfile
		c.drop()
		return
	}
	// it has no content, and a length of 0 says so (RFC 9110 section 15.3.6)
	if h.Status == http.StatusResetContent {
		c.drop()
	}
	if h.Coding != "" {
		c.LogAt(slog.LevelWarn, "Transfer-Encoding of an application is dropped", "coding", h.Coding)
	}
	if h.SecondType != "" {
		c.LogAt(slog.LevelWarn, "a second Content-Type of an application is dropped", "type",
			h.SecondType)
	}
}

// drop drops the body of the response.
func (c *Call) drop() {
	c.answer.length = -1
	c.Flow.Discard()
}

// content passes on a piece of the body. It drops bytes beyond the announced length: the client
// would take these for the next response.
func (c *Call) content(p []byte) error {
	if !c.answer.bodiless && c.answer.length >= 0 {
		if room := c.answer.length - c.answer.got; int64(len(p)) > room {
			if c.answer.got <= c.answer.length && !c.Flow.Discarded() {
				c.tooLong() // which needs much of the stack, and what comes below is the deepest
			}
			c.answer.got += int64(len(p)) - max(room, 0)
			p = p[:max(room, 0)]
		}
	}
	c.answer.got += int64(len(p))
	if len(p) == 0 {
		return nil
	}
	return c.clientGone(c.Flow.Write(p))
}

func (c *Call) tooLong() {
	c.LogAt(slog.LevelWarn, "response body is longer than its Content-Length", "length",
		c.answer.length)
}

// pause is called when the upstream sends nothing more for the moment. Received bytes go out, as
// the next one may take long.
func (c *Call) pause() error {
	c.protocol.Pause()
	if !c.answer.begun || c.answer.buffered {
		return nil
	}
	return c.clientGone(c.Flow.Flush())
}

// complete reports that all bytes of an answer with a known length have arrived.
func (c *Call) complete() bool {
	a := &c.answer
	return a.begun && (a.bodiless || a.length >= 0 && a.got >= a.length)
}

// undelimited reports that only the end of the connection ends the body.
func (c *Call) undelimited() bool {
	return !c.answer.bodiless && c.answer.length < 0 && !c.Flow.Discarded()
}

// short reports that the body was shorter than announced.
func (c *Call) short() bool {
	return !c.Flow.Discarded() && !c.answer.bodiless && c.answer.length >= 0 &&
		c.answer.got < c.answer.length
}

// Finish implements reverseproxy.RoundTripper.
func (c *Call) Finish() int {
	if err := c.clientGone(c.Flow.Drain(!c.answer.buffered)); err != nil {
		return c.Fail(err)
	}
	switch {
	case c.Redirect != "" || c.Sendfile != "":
		return c.SendAccel()
	case c.answer.clientGone:
		c.Resp.Abort()
	}
	return c.Status
}
