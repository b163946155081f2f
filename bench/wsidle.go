package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gobwas/ws"

	"github.com/lwango/lwango/bench/tasks"
)

// This file measures what connections take that have subscribed to something, or are secured, and
// wait: as loadIdle does.

// loadIdleChat lets all members of all rooms hear one message, and stay. At the end each hears one
// more.
func loadIdleChat(j job) figures {
	warm := j
	warm.Conns = min(warmConns, j.Conns)
	warm.Rooms = max(warm.Conns*j.Rooms/j.Conns, 1)
	c := newChatClient(j)
	defer c.shut()
	f, _ := j.grow(func() {
		c := newChatClient(warm)
		defer c.shut()
		c.enter()
	}, c.enter)
	for range c.sent { // each talks once
		c.sayNext(c.now())
	}
	c.allCome()
	return f
}

// An eventClient has event streams, ten to a room.
type eventClient struct {
	*wsClient
	job
	heads int // answers that have begun
	heard []int
	// by stream: the end of what has come, as far as it may be the beginning of something
	parts []string
}

const streamsInRoom = 10

func newEventClient(j job) *eventClient {
	return &eventClient{wsClient: newWSClient(64 << 10), job: j, heard: make([]int, j.Conns),
		parts: make([]string, j.Conns)}
}

// open begins all streams, and returns when each has heard the first event.
func (c *eventClient) open() {
	for i := range c.Conns {
		conn := c.dial()
		c.ask(conn, http.MethodGet, c.Path+"?room="+strconv.Itoa(i/streamsInRoom), usualFields)
		c.conns = append(c.conns, c.adopt(conn, i+1, func(p []byte) error { return c.take(i, p) }))
	}
	if !c.until(c.Patience, func() bool { return c.heads == c.Conns }) {
		failf("%d of %d streams have begun after %v", c.heads, c.Conns, c.Patience)
	}
	c.say()
}

// say lets something be said in each room, and returns when all have heard it.
func (c *eventClient) say() {
	var want []int
	for _, n := range c.heard {
		want = append(want, n+1)
	}
	for room := range (c.Conns + streamsInRoom - 1) / streamsInRoom {
		c.once(tasks.SayPath + "?room=" + strconv.Itoa(room))
	}
	for i := range want {
		if !c.until(c.Patience, func() bool { return c.heard[i] == want[i] }) {
			failf("stream %d has heard %d events of %d after %v", i+1, c.heard[i], want[i], c.Patience)
		}
	}
}

// take looks for what it waits for in what comes, however that is cut.
func (c *eventClient) take(i int, p []byte) error {
	const event = "data: " + tasks.Said + "\n\n"
	text := c.parts[i] + string(p)
	if c.heard[i] == 0 && strings.HasPrefix(text, goodStatus) && strings.Contains(text, "\r\n\r\n") {
		c.heads++
		_, text, _ = strings.Cut(text, "\r\n\r\n")
	}
	for {
		_, rest, found := strings.Cut(text, event)
		if !found {
			break
		}
		c.heard[i]++
		text = rest
	}
	c.parts[i] = text[max(0, len(text)-maxHead):]
	return nil
}

// maxHead is longer than the head of an answer.
const maxHead = 1 << 10

// loadIdleEvents begins event streams, each of which hears one event and stays.
func loadIdleEvents(j job) figures {
	warm := j
	warm.Conns = min(warmConns, j.Conns)
	c := newEventClient(j)
	defer c.shut()
	f, _ := j.grow(func() {
		c := newEventClient(warm)
		defer c.shut()
		c.open()
	}, c.open)
	c.say()
	return f
}

// A securedSocket is a WebSocket over TLS, of which one thing is done at a time.
type securedSocket struct {
	conn *tls.Conn
	in   *bufio.Reader
}

// loadIdleSecured opens WebSockets over TLS that echo one message each and stay.
func loadIdleSecured(j job) figures {
	c := &tlsClient{job: j, config: j.trust()}
	where := must(url.Parse("wss://" + j.Addr + j.Path))
	message, sent := letters(echoSource+int(j.Size)), 0
	use := func(s securedSocket) {
		text := message[messageAt(sent):][:j.Size]
		sent++
		var frame bytes.Buffer
		appendFrame(&frame, ws.OpText, text)
		must(s.conn.Write(frame.Bytes()))
		head, back := must(ws.ReadHeader(s.in)), make([]byte, j.Size)
		must(io.ReadFull(s.in, back))
		if head.OpCode != ws.OpText || head.Length != j.Size || !bytes.Equal(back, text) {
			failf("opcode %d, %.40q came back of %.40q", head.OpCode, back, text)
		}
	}
	open := func() securedSocket {
		s := securedSocket{conn: c.open()}
		early, _, err := ws.Dialer{}.Upgrade(s.conn, where)
		check(err)
		if s.in = early; early == nil {
			s.in = bufio.NewReaderSize(s.conn, 256)
		}
		return s
	}
	return idle(j, open, use, func(s securedSocket) { closeBelow(s.conn) })
}
