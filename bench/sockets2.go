package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/gobwas/ws"
)

// loadSockets2 echoes messages by WebSockets that are streams of HTTP/2 (RFC 8441), one at a time
// on each. Without streams it does the same over HTTP/1.1, with a connection for each WebSocket.
func loadSockets2(j job) figures {
	if j.Streams == 0 {
		return loadLoop(j)
	}
	c := newClient2(j)
	defer c.shut()
	source, sent, opened := letters(echoSource+int(j.Size)), 0, 0
	fields := pairs(":method", "CONNECT", ":protocol", "websocket", ":scheme", "http",
		":authority", j.Addr, ":path", j.Path, "sec-websocket-version", "13")
	for range j.Conns {
		l := c.connect(nil)
		for range j.Streams {
			var part, want []byte
			var frame bytes.Buffer
			s := new(stream2)
			say := func() {
				at := messageAt(sent)
				sent++
				want = source[at : at+int(j.Size)]
				frame.Reset()
				appendFrame(&frame, ws.OpText, want)
				l.data(s, false, frame.Bytes())
			}
			s.take = func(p []byte) error {
				part = append(part, p...)
				for rest := part; ; {
					f, used, err := parseFrame(rest)
					if err != nil || used == 0 {
						part = append(part[:0], rest...)
						return err
					}
					rest = rest[used:]
					if f.Header.OpCode != ws.OpText || !bytes.Equal(f.Payload, want) {
						return fmt.Errorf("opcode %d, %.40q came back of %.40q", f.Header.OpCode, f.Payload, want)
					}
					c.answers++
					say()
				}
			}
			s.end = func() error { return errors.New("the server has closed it") }
			l.request(s, false, fields)
			check(c.flush(l))
			if !c.until(c.Patience, func() bool { return s.begun }) {
				failf("WebSocket %d: no answer within %v", opened+1, c.Patience)
			}
			opened++
			say()
		}
		check(c.flush(l))
	}
	return c.byItself(c.reactor, &c.answers)
}
