package fastcgi

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/lwango/lwango/fastcgi/internal/wire"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/wire/cgi"
)

// AppendBody implements gateway.Protocol. Each piece is a record, and so is the end.
func (c *call) AppendBody(out []byte) ([]byte, error) {
	const around = 2 * wire.HeaderLen // the headers of the piece and of the end
	room := cap(out) - len(out) - around
	if c.Left > 0 && room > 0 {
		n := int(min(c.Left, int64(room), wire.StdinContent))
		at := len(out) + wire.HeaderLen
		n, err := c.ReadBody(out[at : at+n])
		if err != nil {
			return nil, reverseproxy.BodyError(err)
		}
		out = wire.AppendHeader(out, wire.Stdin, n)
		out = out[:len(out)+n]
	}
	if c.Left == 0 && cap(out)-len(out) >= wire.HeaderLen {
		out = wire.AppendStdinEnd(out)
		c.End = true
	}
	return out, nil
}

// Take implements gateway.Protocol: it takes the records in p apart.
func (c *call) Take(p []byte) error {
	for {
		typ, data, n, err := c.dec.Next(p)
		p = p[n:]
		switch {
		case err != nil:
			return err
		case typ == wire.Stdout:
			err = c.Answer(data, false)
		case typ == wire.Stderr:
			c.stderr.add(data)
		case typ == wire.EndRequest:
			return c.endOfResponse(len(p) > 0)
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// endOfResponse judges a response at its END_REQUEST. extra: bytes have come behind that.
func (c *call) endOfResponse(extra bool) error {
	end := c.dec.End()
	switch err := end.Err(); {
	case err != nil && c.Begun():
		// Not wrapped: the head has its status already.
		return fmt.Errorf("the application has given up its response: %v", err)
	case err != nil:
		return err
	case !c.Begun():
		return cgi.ErrIncomplete
	}
	if end.AppStatus != 0 {
		c.LogAt(slog.LevelInfo, "application ended with an exit code", "code", end.AppStatus)
	}
	if n := c.dec.Skipped(); n > 0 {
		c.LogAt(slog.LevelWarn, "records that have no place in a response",
			"upstream", c.Up.Name(), "number", n, "last", c.dec.Record().Type)
	}
	return c.Ended(c.m.set.KeepConn && c.dec.Reusable() && !extra)
}

// ConnectionClosed implements gateway.Protocol: END_REQUEST alone is the end.
func (c *call) ConnectionClosed() error { return upstream.ErrCut }

// Script implements gateway.Protocol.
func (c *call) Script() string { return strings.Clone(c.target.Name) }

// Pause implements gateway.Protocol.
func (c *call) Pause() {
	if c.stderr.any() {
		c.stderr.log(c.Log, c.Req.ID(), c.Script())
	}
}
