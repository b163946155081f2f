package proxy

import (
	"net/http"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// inform passes on an interim response. 100 (Continue) answers the proxy's own expectation, if it
// has one, and the client's with that.
func (c *call) inform() error {
	if c.x.Head.Status == http.StatusContinue {
		return c.proceed()
	}
	c.begun = 0 // what was said of the first byte is true of the next head
	var h conn.Header
	c.fields(c.x.Text(), &h)
	c.SentInterim = true
	if c.gone {
		return nil
	}
	return c.clientGone(c.Flow.Inform(c.x.Head.Status, &h))
}

// proceed lets the client send the body for which it expects 100 (Continue).
func (c *call) proceed() error {
	if !c.expects {
		return nil
	}
	c.expects = false
	if c.gone {
		return nil
	}
	return c.clientGone(c.Flow.Inform(http.StatusContinue, nil))
}

// open makes the head of the client's answer.
func (c *call) open() error {
	h := &c.x.Head
	if err := c.NoteStatus(h.Status); err != nil {
		return err
	}
	text := c.x.Text()
	c.headed, c.Status = true, h.Status
	c.BothMaySend()
	if c.expects { // the client gets no 100 any more, so it may keep its body
		c.expects, c.sendStopped = false, true
	}
	if h.Status == http.StatusSwitchingProtocols {
		if !h.Upgrade || c.protocols == "" {
			return errUpgrade
		}
		c.Resp.Header().Set("Connection", "Upgrade")
	}
	out := c.Resp.Header()
	c.Stick(out)
	if c.Intercepts(h.Status) {
		c.drop()
		c.intercepted = true
		c.fields(text, out)
		return nil
	}
	c.Resp.Layer().Relay(h.Status, text[h.Reason.Start:h.Reason.End])
	c.Redirect, c.Sendfile = "", "" // those of an interim response do not count
	parsed := out.Len()
	c.fields(text, out)
	switch {
	case h.Status == http.StatusSwitchingProtocols:
		// One that the client has not named would be read as another (RFC 9110 section 7.8).
		if !ascii.HasToken(c.protocols, out.Get("Upgrade")) {
			return errUpgrade
		}
	case c.TakesAccel(c.Redirect, c.Sendfile), // finish sends a file in its place
		h.Status == http.StatusResetContent:
		// it has no content, and a length of 0 says so (RFC 9110 section 15.3.6)
		c.drop()
		out.Del("Content-Length")
	}
	if h.Close && !c.sent && c.Unspooled {
		// The upstream will not read the rest, as when it refuses a large upload. So the client
		// need not send it either.
		out.Set("Connection", "close")
	}
	if c.m.mapBack == nil && !c.x.Mux() {
		c.Resp.Layer().MarkValid(parsed)
	}
	return nil
}

// A body that the client does not get is read so that the connection can serve another request.
// That is worth this many bytes and this much time, for which the client waits; then the connection
// is closed.
const (
	dropBytes = 64 << 10
	dropTime  = 100 * time.Millisecond
)

// drop drops the body of the answer.
func (c *call) drop() {
	c.dropUntil = time.Now().Add(dropTime)
	c.Flow.Discard()
}

// fields adds the fields of the head to out, except those of the connection with the upstream, and
// of what a page takes the place of.
func (c *call) fields(text string, out *conn.Header) {
	h := &c.x.Head
	c.named = options{}
	if h.Listed {
		c.readNamed(text)
	}
	for i := range h.Fields {
		f := &h.Fields[i]
		name, value := text[f.Name.Start:f.Name.End], text[f.Value.Start:f.Value.End]
		if http1.MayHave(c.m.fromUpstream, name) || name[0]|0x20 == 'x' || len(c.named.names) > 0 {
			if !c.returned(name, value) {
				continue
			}
		}
		if c.intercepted && !reverseproxy.BelongsToStatus(h.Status, name) {
			continue
		}
		if c.m.mapBack != nil {
			value = c.m.mapBack.value(c, name, value)
		}
		out.Add(name, value)
	}
}

// readNamed reads the options of the Connection fields.
func (c *call) readNamed(text string) {
	for _, f := range c.x.Head.Fields {
		if ascii.EqualFold(text[f.Name.Start:f.Name.End], "Connection") {
			addOptions(&c.named, text[f.Value.Start:f.Value.End])
		}
	}
}

// returned takes what a field of the upstream says to the server, and reports whether the client
// gets the field.
func (c *call) returned(name, value string) bool {
	h := &c.x.Head
	switch {
	case len(name) == len("Content-Length") && ascii.EqualFold(name, "Content-Length"):
		return !h.Chunked && h.Status >= 200 // by HTTP/2 it may come beside trailers, behind chunks
	case len(name) == len("Connection") && ascii.EqualFold(name, "Connection"):
		return false // as most answers have it
	case len(name) == len("Upgrade") && ascii.EqualFold(name, "Upgrade"):
		// An offer with 426 stays (RFC 9110 section 15.5.22).
		return (h.Status == http.StatusSwitchingProtocols ||
			h.Status == http.StatusUpgradeRequired) && !c.Hides(name)
	case len(name) == len("X-Accel-Buffering") && ascii.EqualFold(name, "X-Accel-Buffering"):
		if ascii.EqualFold(value, "no") {
			c.Flow.Unbuffered()
		}
		return false
	case len(name) > len("X-Accel-") && ascii.HasPrefixFold(name, "X-Accel-"):
		switch {
		case len(name) == len("X-Accel-Redirect") && ascii.EqualFold(name, "X-Accel-Redirect"):
			c.Redirect = value
		case h.Status >= 200 && ascii.EqualFold(name, rfc9111.FieldXAccelExpires):
			c.Resp.Layer().CacheFor(value)
		}
		return false // what else it says is for a server of another kind, and not for the client
	case len(name) == len("X-Sendfile") && ascii.EqualFold(name, "X-Sendfile"):
		c.Sendfile = value
		return false
	case len(name) == len("Trailer") && !h.Chunked && ascii.EqualFold(name, "Trailer"):
		return false
	}
	return c.returns(name)
}

// returns reports whether a field of the upstream goes on to the client, in a head or behind the
// body.
func (c *call) returns(name string) bool {
	return !http1.HopByHop(name) && !http1.Framing(name) && !c.named.has(name) && !c.Hides(name) &&
		!isServerField(name)
}

// isServerField reports whether a field is between an application and its server, and so not for
// the client, whatever it says. Some name a path of the application's machine.
func isServerField(name string) bool {
	return ascii.HasPrefixFold(name, "X-Accel-") || ascii.EqualFold(name, "X-Sendfile")
}
