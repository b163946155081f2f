package proxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/relay"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// end is one end of a tunnel.
type end struct {
	link               conn.Link
	over               net.Conn // link, or TLS over it
	keep               keeper
	duplex             stream.Duplex // keep, unless link is of HTTP/2
	readable, writable loop.Source
	ended              bool // there is nothing more to read
	shut               bool // the other side has been told that nothing more is written

	got  int64       // bytes that have come from this end and were passed on
	bulk int         // bytes that were read in a row, each read as much as it could take
	pipe stream.Pipe // bytes that come from the other end, besides those in duplex

	frames *frames // of what comes from this end; nil: they are not followed
}

// keeper keeps what an end has no room for.
type keeper interface {
	Held() int
	SendHeld() (left int, err error)
}

func (e *end) begin(link conn.Link, over net.Conn) {
	e.link, e.over = link, over
	link.SetNoWait(true)
	e.readable, e.writable = link.Readable(), link.Writable()
	if s, ok := link.(*stream.Stream); ok {
		s.Duplex(&e.duplex)
		e.keep = &e.duplex
		return
	}
	h := link.(holder)
	h.Hold(true)
	e.keep = h
}

// holder is a link that keeps by itself what it has no room for.
type holder interface {
	keeper
	Hold(on bool)
}

// stop ends the mode in which no write waits. What is held does not go out.
func (e *end) stop() {
	e.pipe.Drop()
	if s, ok := e.link.(*stream.Stream); ok {
		s.Duplex(nil)
	} else {
		e.link.(holder).Hold(false)
	}
}

// closed reports that the other side has been told that nothing more is written, by TLS too.
func (e *end) closed() bool { return e.shut && e.held() == 0 }

// held returns how many bytes there are for which the end has no room yet.
func (e *end) held() int { return e.keep.Held() + e.pipe.Held() }

// sendHeld sends as much of these as there is room for, and returns how many are left.
func (e *end) sendHeld() (left int, err error) {
	if e.pipe.Held() > 0 {
		return e.pipe.Drain(e.plain())
	}
	return e.keep.SendHeld()
}

// plain returns the end's socket, if bytes go to it as they are; else nil.
func (e *end) plain() *stream.Stream {
	s, _ := e.over.(*stream.Stream)
	return s
}

// tunnel joins client and upstream after an upgrade, until both have ended, or one has failed, or
// no byte has moved for tunnel_timeout. When one side has ended, the other has read_timeout to end
// as well: most protocols end together, and nothing else would tell of a peer that is gone.
//
// When the server stops, the client of a WebSocket gets a close frame behind the frame that is
// under way from the upstream. What the upstream sends from then on is dropped. The client's answer
// goes on to the upstream, which ends the WebSocket as it would for a client that leaves. Both have
// closeWait for that. Where it is not a WebSocket, or its frame does not end, the grace period ends
// it.
//
// One thread moves both directions: two must not share a TLS connection, and neither would know
// whether the other direction is idle. It has a buffer or a pipe only while bytes move.
func (c *call) tunnel(rest []byte) int {
	thread, set := c.Req.Thread, &c.m.set
	c.Req.KeepWaiting(true) // the loop sees the client's end before the tunnel has read all
	up := new(end)          // not on the stack, which there may be thousands of
	from := new(end)
	up.frames = framesOf(c.Resp)
	s, over := c.Stream, c.Up.Over(c.Stream)
	c.x.Reset()
	nc, r, err := c.Resp.Hijack()
	if err != nil {
		c.Resp.Abort()
		return c.Status
	}
	// Nothing holds the request any more, which conn has given up, nor the heads.
	c.Flow, c.Req, c.Resp, c.Body, c.rest = relay.Flow{}, nil, nil, nil, nil
	c.options, c.named, c.protocols = options{}, options{}, ""
	from.begin(conn.LinkOf(nc), nc)
	up.begin(s, over)
	defer from.stop()
	defer up.stop()
	early, _ := r.Peek(r.Buffered())
	if up.frames != nil {
		rest = up.frames.pass(rest, false)
	}
	from.got, up.got = int64(len(early)), int64(len(rest))
	defer func() {
		conn.SetMoved(thread, up.got, from.got)
		if up.said() {
			conn.SetCloseCode(thread, 1001)
		}
	}()
	if _, err := up.over.Write(early); err != nil {
		return http.StatusSwitchingProtocols
	}
	if _, err := from.over.Write(rest); err != nil {
		return http.StatusSwitchingProtocols
	}
	early, rest, r = nil, nil, nil
	var until time.Time // of a WebSocket that the server has closed
	for {
		moved, err := carry(from, up)
		if err == nil {
			var back bool
			back, err = carry(up, from)
			moved = moved || back
		}
		if err == nil && !moved {
			moved, err = up.farewell(from)
		}
		if err != nil || from.closed() && up.closed() {
			break
		}
		limit := set.TunnelTimeout
		if from.ended || up.ended {
			limit = min(limit, set.ReadTimeout)
		}
		if up.said() {
			now := thread.Loop().Time()
			if until.IsZero() {
				until = now.Add(closeWait)
			}
			if limit = min(limit, until.Sub(now)); limit <= 0 {
				break
			}
		}
		if moved {
			continue
		}
		if await(thread, limit, from, up) != nil {
			break
		}
	}
	return http.StatusSwitchingProtocols
}

// said reports that what comes from e is dropped, behind a close frame of the server.
func (e *end) said() bool { return e.frames != nil && e.frames.said }

// farewell tells the other end that the server stops, if no frame is under way to it. It reports
// whether it has done that.
func (e *end) farewell(to *end) (bool, error) {
	if e.frames == nil || to.held() > 0 || to.shut || !e.link.Loop().Stopping() {
		return false, nil
	}
	last := e.frames.pass(nil, true)
	if len(last) == 0 {
		return false, nil
	}
	e.got += int64(len(last))
	_, err := to.over.Write(last)
	return true, err
}

// carry moves what has arrived at one end to the other, as far as there is room there. It reports
// whether it should be called again before the thread waits.
func carry(from, to *end) (moved bool, err error) {
	if to.held() > 0 {
		if left, err := to.sendHeld(); err != nil || left > 0 {
			return false, err // the rest waits for room
		}
		moved = true
	}
	if !from.ended {
		err := from.pass(to)
		switch {
		case err == nil:
			return to.held() == 0, nil
		case errors.Is(err, stream.ErrWouldBlock):
			return moved, nil
		case err != io.EOF:
			return false, err
		}
		from.ended = true
	}
	if to.shut {
		return moved, nil
	}
	to.shut = true
	err = to.over.(interface{ CloseWrite() error }).CloseWrite()
	// crypto/tls lets the deadline pass behind its last record, which the Duplex may still hold.
	_ = to.link.SetWriteDeadline(time.Time{})
	return moved, err
}

// spliceAt is how many bytes have to come in a row before the next ones go through a pipe. Fewer
// cost more there than by way of a buffer (stream.Stream.WriteTo has the figures).
const spliceAt = 64 << 10

// pass moves what one read returns to the other end, which holds what it has no room for.
func (e *end) pass(to *end) error {
	plain := e.plain()
	if net.Conn(e.link) == e.over && !e.link.Unread() && !e.link.Loop().Stopping() {
		return stream.ErrWouldBlock
	}
	if most := e.frames.payload(); plain != nil && e.bulk >= spliceAt && to.plain() != nil && most >= spliceAt {
		n, err := to.pipe.Fill(plain, most)
		if e.frames != nil {
			e.frames.left -= int64(n)
		}
		if err == nil {
			_, err = to.pipe.Drain(to.plain())
		}
		if e.got += int64(n); n < spliceAt {
			e.bulk = 0
		}
		if err != errors.ErrUnsupported {
			return err
		}
	}
	buf := relay.TakeBuffer()
	defer relay.PutBuffer(buf) // also when the thread is killed
	n, err := e.over.Read(buf[:])
	if e.bulk += n; n < len(buf) {
		e.bulk = 0
	}
	if n == 0 {
		return err
	}
	piece := buf[:n]
	if e.frames != nil {
		piece = e.frames.pass(piece, e.link.Loop().Stopping())
	}
	if len(piece) == 0 {
		return nil
	}
	e.got += int64(len(piece))
	_, err = to.over.Write(piece)
	return err
}

// await waits until bytes can move.
func await(t *loop.Thread, limit time.Duration, a, b *end) error {
	var room [5]loop.Source
	sources := room[:0]
	for _, p := range [2][2]*end{{a, b}, {b, a}} {
		from, to := p[0], p[1]
		if to.held() > 0 {
			sources = append(sources, to.writable)
		} else if !from.ended {
			sources = append(sources, from.readable)
		}
	}
	if len(sources) == 0 {
		return loop.ErrDeadlineExceeded
	}
	if stopped := t.Loop().Stopped(); (a.frames != nil || b.frames != nil) && !stopped.Ready() {
		sources = append(sources, stopped)
	}
	_, err := t.AwaitAny(limit, sources...)
	return err
}
