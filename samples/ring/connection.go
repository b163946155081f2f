package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/wire/http1"
)

// connection is one of HTTP/1.1. All is its task's, but what the server looks at.
type connection struct {
	*server
	c     *Context
	fiber *fiber
	fd    int

	answered bool          // a request
	waits    bool          // for a request, of which no byte has come
	idle     bool          // waits, and not for the first one: may be ended to make room
	since    time.Duration // it waits, by the Context's clock

	in   []byte // what has come
	used int    // how much of that
	head http1.Head

	out     []byte // a block, or nil
	pending int    // bytes in out
}

const (
	maxHead    = 16 << 10
	keptInput  = 4 << 10 // what an idle connection may keep of its memory for input
	lingerTime = time.Second
)

// serve is the task of a connection.
func (k *connection) serve(c *Context) (None, error) {
	k.c, k.fiber = c, c.running
	defer k.end()
	err := k.requests()
	switch {
	case err == nil, err == errStop, err == errReplaced, k.waits:
		return None{}, nil // in order, also if an idle client has left
	}
	if client := sysio.PeerAddr(k.fd); client.IsValid() { // it is not after a reset
		err = fmt.Errorf("%v: %w", client, err)
	}
	return None{}, err
}

// end gives back what the connection has. No operation is under way: a receive that the kernel
// still waits with would hold the socket open after its close, and the client would get no FIN.
func (k *connection) end() {
	if k.out != nil {
		k.c.blocks.give(k.out)
	}
	k.c.CloseFD(k.fd)
	delete(k.connections, k)
	k.leave()
}

// requests answers one request after the other.
func (k *connection) requests() error {
	for {
		err := k.request()
		var refused *http1.Error
		if errors.As(err, &refused) {
			k.answer(refused.Status, "Connection: close\r\n", "")
			return errors.Join(err, k.flush(), k.linger())
		}
		if k.answered && (err == errStop || err == errReplaced) {
			_ = k.linger() // it returns at once if the connection is canceled
		}
		if err != nil {
			return err
		}
		keep := k.head.Persistent() && !k.head.HasBody() && !k.stopping && !k.full
		if err := k.respond(keep); err != nil {
			return err
		}
		k.used, k.answered = k.used+k.head.Len(), true
		if !keep {
			more := k.head.HasBody() || k.head.Persistent() || k.used < len(k.in)
			if err := k.flush(); err != nil || !more {
				return err
			}
			return k.linger() // the client may have sent on
		}
	}
}

// Refusals of requests that are not well-formed or not in time.
var (
	errHeadTime = &http1.Error{Status: 408, Reason: "the request takes too long"}
	errHeadSize = &http1.Error{Status: 431, Reason: "the head is too large"}
	errLineSize = &http1.Error{Status: 414, Reason: "the request line is too long"}
)

// request reads the head of a request. Before it waits for one, the answers so far are sent: those
// to requests that have come together, in one write.
func (k *connection) request() error {
	k.head.Reset()
	var until time.Duration // the head's time is over, by the Context's clock
	for {
		switch n, err := k.head.Parse(k.in[k.used:]); {
		case err != nil:
			return err
		case n > 0:
			return nil
		case len(k.in)-k.used <= maxHead:
		case k.head.InRequestLine():
			return errLineSize
		default:
			return errHeadSize
		}
		if err := k.flush(); err != nil {
			return err
		}
		k.in, k.used = k.in[:copy(k.in, k.in[k.used:])], 0
		k.waits, k.since = len(k.in) == 0, k.c.now
		if k.waits {
			if err := k.await(); err != nil {
				return err
			}
			until = k.c.now + k.headTime
			continue
		}
		if until == 0 { // half a head has come with the last one; sending the answers took its time
			until = k.c.now + k.headTime
		}
		if until <= k.c.now {
			return errHeadTime
		}
		in, err := k.c.Read(k.fd, k.in, until-k.c.now)
		if err == ErrTimeout {
			return errHeadTime
		}
		if err != nil {
			return err
		}
		k.in = in
	}
}

// await waits for the first bytes of a request. Meanwhile the server may end the connection, if it
// stops or needs the place.
func (k *connection) await() error {
	switch {
	case k.full && k.answered:
		return errReplaced
	case k.stopping:
		return errStop
	case cap(k.in) > keptInput:
		k.in = nil
	}
	timeout := k.headTime
	if k.idle = k.answered; k.idle {
		timeout = k.idleTime
	}
	in, err := k.c.Read(k.fd, k.in, timeout)
	if err == nil {
		k.in, k.waits, k.idle = in, false, false
	}
	return err
}

// respond answers the request that has come.
func (k *connection) respond(keep bool) error {
	fields := ""
	switch {
	case !keep:
		fields = "Connection: close\r\n"
	case k.head.Minor == 0:
		fields = "Connection: keep-alive\r\n"
	}
	const allow = "Allow: GET, HEAD, OPTIONS\r\n"
	switch k.head.Method {
	case http1.GET, http1.HEAD:
		if k.text != "" {
			return k.answer(200, fields+"Content-Type: text/plain\r\n", k.text)
		}
		return k.file(fields)
	case http1.OPTIONS:
		return k.answer(204, fields+allow, "")
	}
	return k.answer(405, fields+allow, "")
}

// answer answers with a text, that of an error if it is empty.
func (k *connection) answer(status int, fields, text string) error {
	switch {
	case status == 204 || status == 304:
		return k.begin(status, fields, -1)
	case text == "":
		text = fmt.Sprintf("%d %s\n", status, reasons[status])
		fields += "Content-Type: text/plain\r\n"
	}
	if err := k.begin(status, fields, int64(len(text))); err != nil || k.head.Method == http1.HEAD {
		return err
	}
	return k.sendBody(strings.NewReader(text), int64(len(text)))
}

// headRoom is room for the head of any answer, most of which are shorter than 300 bytes.
const headRoom = 8 << 10

// begin writes the head of an answer. length is that of the body; -1: there is none.
func (k *connection) begin(status int, fields string, length int64) error {
	room, err := k.room(headRoom)
	if err != nil {
		return err
	}
	b := append(room[:0], "HTTP/1.1 "...)
	b = append(strconv.AppendInt(b, int64(status), 10), ' ')
	b = append(append(b, reasons[status]...), "\r\nServer: ring\r\nDate: "...)
	b = append(append(append(b, k.now()...), "\r\n"...), fields...)
	if length >= 0 {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), length, 10), "\r\n"...)
	}
	b = append(b, "\r\n"...)
	k.pending += len(b)
	return nil
}

// sendBody puts n bytes of a body behind what is to be sent, and sends what has no room. The kernel
// reads files into the block that is sent.
func (k *connection) sendBody(body io.Reader, n int64) error {
	for n > 0 {
		room, err := k.room(int(min(n, blockSize)))
		if err != nil {
			return err
		}
		got, err := body.Read(room[:min(n, int64(len(room)))])
		k.pending += got
		n -= int64(got)
		if err != nil && n > 0 {
			return err // the file is shorter than it was, and the length is sent
		}
	}
	return nil
}

// room returns room for some of n bytes: for all of them, or at least a part that is worth a write.
func (k *connection) room(n int) ([]byte, error) {
	if k.out == nil {
		k.out = k.c.blocks.take()
	}
	if left := blockSize - k.pending; left < min(n, blockSize/4) {
		if err := k.send(); err != nil {
			return nil, err
		}
	}
	return k.out[k.pending:], nil
}

func (k *connection) send() error {
	err := k.c.WriteAll(k.fd, k.out[:k.pending], k.stallTime)
	k.pending = 0
	return err
}

// flush sends what is to be sent, and gives the block back.
func (k *connection) flush() error {
	if k.out == nil {
		return nil
	}
	err := k.send()
	k.c.blocks.give(k.out)
	k.out = nil
	return err
}

// linger ends our half of the connection and drops what still comes. A close with unread input
// would reset the connection, and the client might lose the answer.
func (k *connection) linger() error {
	_ = unix.Shutdown(k.fd, unix.SHUT_WR)
	for until := k.c.now + lingerTime; k.c.now < until; {
		in, err := k.c.Read(k.fd, k.in[:0], until-k.c.now)
		if err != nil {
			return nil // it has ended, or takes too long
		}
		k.in = in
	}
	return nil
}

// HeaderViewFrom implements http1.Fields.
func (k *connection) HeaderViewFrom(name string, from int) (value []byte, next int) {
	if k.head.MayHave(name) {
		raw := k.in[k.used:]
		for i := from; i < len(k.head.Fields); i++ {
			if f := &k.head.Fields[i]; ascii.EqualFold(f.Name.Of(raw), name) {
				return f.Value.Of(raw), i + 1
			}
		}
	}
	return nil, -1
}

// reasons has the phrases of RFC 9110 section 15.
var reasons = map[int]string{200: "OK", 204: "No Content", 206: "Partial Content",
	301: "Moved Permanently", 304: "Not Modified", 400: "Bad Request", 403: "Forbidden",
	404: "Not Found", 405: "Method Not Allowed", 408: "Request Timeout", 412: "Precondition Failed",
	414: "URI Too Long", 416: "Range Not Satisfiable", 417: "Expectation Failed",
	431: "Request Header Fields Too Large", 500: "Internal Server Error", 501: "Not Implemented",
	503: "Service Unavailable", 505: "HTTP Version Not Supported"}
