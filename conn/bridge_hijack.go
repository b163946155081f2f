package conn

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
)

// hijacking is what a handler off the loop waits for in Hijack.
type hijacking struct {
	wanted bool // and not done yet
	done   bool
	conn   net.Conn
	reader *bufio.Reader
	err    error
	cancel context.CancelCauseFunc // the request's context is the handler's from then on
	line   *laterLine              // nil: no access log
	server *Server                 // that counts it, see Server.Detached; nil: not hijacked
}

// end is called when the handler has returned.
func (h *hijacking) end() {
	if h.line != nil {
		h.line.write(new(takeover))
	}
	if h.server != nil {
		h.server.detached.Add(-1)
	}
}

// Hijack makes the thread hand over the connection, and waits for that.
func (c *bridge) Hijack() (net.Conn, *bufio.Reader, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.hijack
	h.wanted, h.done = true, false
	c.notify()
	for !h.done {
		if c.outErr != nil {
			h.wanted = false
			return nil, nil, c.outErr
		}
		c.await()
	}
	return h.conn, h.reader, h.err
}

// handOver gives the connection to the handler, and reports whether the handler has got it.
func (c *bridge) handOver(req *Request, resp *Response) bool {
	conn, reader, err := resp.detach()
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.hijack
	if err == nil {
		h.line = req.x.logLater(true)
		if req.x.protocol == "" { // else the connection stays
			h.server = req.x.c.port.server
			h.server.detached.Add(1)
		}
	}
	if err == nil && c.returned { // the goroutine that asks has outlived the handler
		h.end()
		_ = conn.Close()
		return true
	}
	if n := len(c.in); err == nil && n > 0 && !req.head.Chunked { // it has been read ahead
		size := max(n+reader.Buffered(), hijackedBuffer)
		reader = bufio.NewReaderSize(
			io.MultiReader(bytes.NewReader(bytes.Clone(c.in)), reader), size)
		_, _ = reader.Peek(n)
		c.in = nil
	}
	h.wanted, h.done = false, true
	h.conn, h.reader, h.err = conn, reader, err
	if err == nil {
		h.cancel, req.x.cancel = req.x.cancel, nil
	}
	c.cond.Broadcast()
	return err == nil
}
