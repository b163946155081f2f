package proxy

import (
	"errors"
	"net/http"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/relay"
	"github.com/lwango/lwango/internal/tunnel"
	"github.com/lwango/lwango/loop"
)

// joined is a tunnel, and what its thread waits for.
type joined struct {
	tunnel.Tunnel
	client, up side
	frames     *frames // of the upstream; nil: they are not followed
}

// side is what tells of an end.
type side struct{ readable, writable loop.Source }

func sideOf(link conn.Link) side { return side{link.Readable(), link.Writable()} }

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
// One that has failed is passed on, when the other side has all that it has said: that is reset, too.
func (c *call) tunnel(rest []byte) int {
	thread, limits := c.Req.Thread, &c.m.tunnels
	c.Req.KeepWaiting(true) // the loop sees the client's end before the tunnel has read all
	j := new(joined)        // not on the stack, which there may be thousands of
	j.frames = framesOf(c.Resp, thread.Loop())
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
	link := conn.LinkOf(nc)
	j.client, j.up = sideOf(link), sideOf(s)
	j.Client.Begin(link, nc)
	j.Up.Begin(s, over)
	defer j.part(c, thread, link)
	early, _ := r.Peek(r.Buffered())
	if j.frames != nil {
		rest = j.frames.pass(rest, false)
	}
	j.Client.Got, j.Up.Got = int64(len(early)), int64(len(rest))
	j.Up.Write(early)
	j.Client.Write(rest)
	early, rest, r = nil, nil, nil
	l := thread.Loop()
	j.Start(l.Clock(l.Time()))
	var filter tunnel.Filter // a nil *frames is none
	if j.frames != nil {
		filter = j.frames
	}
	var until time.Duration // of a WebSocket that the server has closed
	for {
		now := l.Clock(l.Time())
		again, why := j.Move(now, filter)
		if why != tunnel.Open {
			break
		}
		if !again {
			again = j.farewell(l)
		}
		left, _ := j.Left(now, limits)
		if j.said() {
			if until == 0 {
				until = now + closeWait
			}
			left = min(left, until-now)
		}
		if left <= 0 {
			break
		}
		if again {
			continue
		}
		if err := j.await(thread, left); err != nil && !errors.Is(err, loop.ErrDeadlineExceeded) {
			break
		}
	}
	return http.StatusSwitchingProtocols
}

// part ends a tunnel, and notes for the access log what has passed. An upstream that has not got all
// that its client has said, or whose client has failed, must not take it for an orderly end, nor the
// other way around. So there is no goodbye of TLS then.
func (j *joined) part(c *call, thread *loop.Thread, link conn.Link) {
	conn.SetMoved(thread, j.Up.Got, j.Client.Got)
	if j.said() {
		conn.SetCloseCode(thread, 1001)
	}
	cut, cutBack := j.Up.Cut(&j.Client), j.Lost()
	j.Client.Stop()
	j.Up.Stop()
	if cutBack { // else conn closes it
		link.ResetOnClose()
		_ = link.Close()
	}
	if cut {
		c.Stream.ResetOnClose()
		_ = c.Stream.Close()
		c.Up.Release()
		c.Stream = nil
	}
}

// said reports that what comes from the upstream is dropped, behind a close frame of the server.
func (j *joined) said() bool { return j.frames != nil && j.frames.said }

// farewell tells the client that the server stops, if no frame is under way to it. It reports whether
// it has done that.
func (j *joined) farewell(l *loop.Loop) bool {
	if j.frames == nil || j.Client.Held() > 0 || j.Up.Ended || !l.Stopping() {
		return false
	}
	last := j.frames.pass(nil, true)
	j.Up.Got += int64(len(last))
	j.Client.Write(last)
	return len(last) > 0
}

// await waits until bytes can move.
func (j *joined) await(t *loop.Thread, limit time.Duration) error {
	var room [5]loop.Source
	sources := room[:0]
	add := func(from, to *tunnel.End, source, sink *side) {
		if to.Held() > 0 {
			sources = append(sources, sink.writable)
		} else if !from.Ended {
			sources = append(sources, source.readable)
		}
	}
	add(&j.Client, &j.Up, &j.client, &j.up)
	add(&j.Up, &j.Client, &j.up, &j.client)
	if len(sources) == 0 { // the client has not got all yet
		return t.Sleep(limit)
	}
	if stopped := t.Loop().Stopped(); j.frames != nil && !stopped.Ready() {
		sources = append(sources, stopped)
	}
	_, err := t.AwaitAny(limit, sources...)
	return err
}
