package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/gobwas/ws"
)

// A wsClient is any number of WebSocket connections on one reactor: a goroutine and two buffers per
// connection would take more of the machine than the servers that are measured.
type wsClient struct {
	*reactor
	start time.Time // messages carry the time since then
	conns []*link
	frame bytes.Buffer // the one being sent

	// message takes the text messages of the i-th connection; p is valid until it returns. It may
	// send.
	message func(i int, p []byte, now time.Duration) error
}

func newWSClient(buffer int) *wsClient {
	return &wsClient{reactor: newReactor(buffer), start: time.Now()}
}

func (c *wsClient) now() time.Duration { return time.Since(c.start) }

// join adds a connection. Without a path, take is given what comes. Otherwise it becomes a
// WebSocket, without any extension, before join returns.
func (c *wsClient) join(tcp net.Conn, path string, take func(p []byte) error) {
	i := len(c.conns)
	if path == "" {
		c.conns = append(c.conns, c.adopt(tcp, i+1, take))
		return
	}
	check(tcp.SetDeadline(time.Now().Add(verifyLimit)))
	early, _, err := ws.Dialer{}.Upgrade(tcp, must(url.Parse("ws://"+tcp.RemoteAddr().String()+path)))
	if err != nil {
		tcp.Close()
		failf("connection %d: the upgrade: %w", i+1, err)
	}
	c.conns = append(c.conns, c.adopt(tcp, i+1, func(p []byte) error { return c.feed(i, p) }))
	if early != nil { // the server's first frames
		check(c.feed(i, must(early.Peek(early.Buffered()))))
	}
}

func (c *wsClient) leave() {
	c.reset()
	c.conns = nil
}

func (c *wsClient) sendText(i int, text []byte) error { return c.sendFrame(i, ws.OpText, text) }

func (c *wsClient) sendFrame(i int, op ws.OpCode, payload []byte) error {
	c.frame.Reset()
	appendFrame(&c.frame, op, payload)
	return c.write(c.conns[i], c.frame.Bytes())
}

// appendFrame appends one masked frame, as clients send it (RFC 6455, section 5.3).
func appendFrame(b *bytes.Buffer, op ws.OpCode, payload []byte) {
	head := ws.Header{
		Fin: true, OpCode: op, Masked: true, Mask: ws.NewMask(), Length: int64(len(payload)),
	}
	check(ws.WriteHeader(b, head))
	b.Write(payload)
	ws.Cipher(b.Bytes()[b.Len()-len(payload):], head.Mask, 0)
}

// feed takes the bytes that came and keeps the last incomplete frame of them.
func (c *wsClient) feed(i int, p []byte) error {
	now, conn := c.now(), c.conns[i]
	if len(conn.part) > 0 {
		conn.part = append(conn.part, p...)
		p = conn.part
	}
	for {
		f, used, err := parseFrame(p)
		if err != nil {
			return err
		}
		if used == 0 {
			break
		}
		p = p[used:]
		switch f.Header.OpCode {
		case ws.OpText:
			err = c.message(i, f.Payload, now)
		case ws.OpPing:
			err = c.sendFrame(i, ws.OpPong, f.Payload)
		case ws.OpClose:
			code, reason := ws.ParseCloseFrameData(f.Payload)
			err = fmt.Errorf("the server closed it with %d %q", code, reason)
		}
		if err != nil {
			return err
		}
	}
	conn.part = append(conn.part[:0], p...)
	if len(p) == 0 {
		conn.part = nil // thousands of them: what is kept is kept for an instant
	}
	return nil
}

// maxPayload is more than any message here has; a longer one is a server gone wrong, not a reason
// to allocate.
const maxPayload = 1 << 16

// parseFrame takes the first frame of p and tells how many bytes it had: 0 when p ends within it.
// What a server must not send is an error. So is a fragmented message: these messages are short,
// and no server has a reason to cut one.
func parseFrame(p []byte) (f ws.Frame, used int, err error) {
	in := bytes.NewReader(p)
	if f.Header, err = ws.ReadHeader(in); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = nil
		}
		return f, 0, err
	}
	head, op := f.Header, f.Header.OpCode
	used = len(p) - in.Len()
	if err = ws.CheckHeader(head, ws.StateClientSide); err != nil {
		return f, 0, err
	}
	switch {
	case !head.Fin:
		err = errors.New("a fragmented message")
	case op != ws.OpText && !op.IsControl():
		err = fmt.Errorf("opcode %d", op)
	case head.Length >= maxPayload:
		err = fmt.Errorf("a message of more than %d bytes", maxPayload-1)
	case used > 2 && head.Length < 126:
		err = fmt.Errorf("length %d in more bytes than it needs", head.Length)
	}
	if err != nil || in.Len() < int(head.Length) {
		return f, 0, err
	}
	f.Payload = p[used : used+int(head.Length)]
	return f, used + int(head.Length), nil
}
