package proxy

import (
	"errors"
	"net/http"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/upstream/tunnel"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// tunnelKeeper is a tunnel, and the keeper of the client's connection (conn.Keeper): between two
// calls of Run there is neither a coroutine nor anything of the request.
type tunnelKeeper struct {
	tunnel.Tunnel
	m      *module
	lease  upstream.Lease
	stream *stream.Conn      // of the upstream
	link   conn.HijackedConn // of the client
	frames *frames           // of the upstream; nil: they are not followed

	client, up side // once the tunnel has waited in Run

	until time.Duration // when to wait no more for the end of a WebSocket that the server has closed
}

// side is what tells of an end.
type side struct{ readable, writable loop.Source }

func sideOf(link conn.HijackedConn) side { return side{link.Readable(), link.Writable()} }

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
// One that has failed is passed on, when the other side has all that it has said: that is reset,
// too.
func (c *call) tunnel(first []byte) int {
	thread, resp := c.Req.Thread, c.Resp
	c.Req.KeepWaiting(true) // the loop sees the client's end before the tunnel has read all
	j := &tunnelKeeper{m: c.m, frames: framesOf(resp, thread.Loop())}
	over := c.Up.Transport(c.Stream)
	c.x.Reset()
	nc, r, err := resp.Hijack()
	if err != nil {
		resp.Abort()
		return c.Status
	}
	// Nothing holds the request any more, which conn has given up, nor the heads.
	c.Flow, c.Req, c.Resp, c.Body, c.unparsed = reverseproxy.Flow{}, nil, nil, nil, nil
	j.link = conn.HijackedOf(nc)
	j.Client.Begin(j.link, nc)
	j.Up.Begin(c.Stream, over)
	j.lease, j.stream = c.Up, c.Stream
	c.Up, c.Stream = upstream.Lease{}, nil
	if err := resp.Layer().HandOver(j); err != nil { // from here on j ends what it has, come what may
		j.End(thread)
		return http.StatusSwitchingProtocols
	}
	early, _ := r.Peek(r.Buffered())
	if j.frames != nil {
		first = j.frames.pass(first, false)
	}
	j.Client.Got, j.Up.Got = int64(len(early)), int64(len(first))
	j.Up.Write(early)
	j.Client.Write(first)
	l := thread.Loop()
	j.Start(l.Layer().Clock(l.Time()))
	return http.StatusSwitchingProtocols
}

// Run implements conn.Keeper. It waits on its coroutine only while one side does not take what
// there is for it, or has ended.
func (j *tunnelKeeper) Run(thread *loop.Thread) (idle time.Duration, more bool) {
	l, limits := thread.Loop(), &j.m.tunnels
	var filter tunnel.Filter // a nil *frames is none
	if j.frames != nil {
		filter = j.frames
	}
	j.stream.WakeOnReady(thread, false, false)
	j.stream.ResetBudget()
	if s, ok := j.link.(*stream.Conn); ok {
		s.ResetBudget()
	}
	for over := false; ; {
		now := l.Layer().Clock(l.Time())
		again, why := j.Move(now, filter)
		if why != tunnel.Open {
			return 0, false
		}
		if !again {
			again = j.sendGoingAway(l)
		}
		left, why := j.Left(now, limits)
		if j.sentClose() {
			if j.until == 0 {
				j.until = now + closeWait
			}
			left = min(left, j.until-now)
		}
		switch {
		case left <= 0:
			if why == tunnel.Idle && !j.sentClose() {
				j.idle(thread)
			}
			return 0, false
		case again:
		case j.idleState():
			if !j.stream.WakeOnReady(thread, true, false) {
				return left, true
			}
			if over { // a read or a write has not told why, and nothing else will
				j.Up.Fail()
			}
			over = true
		default:
			if err := j.await(thread, left); err != nil && !errors.Is(err, loop.ErrDeadlineExceeded) {
				return 0, false
			}
		}
	}
}

// idle logs that the tunnel ends because no byte has moved for too long.
func (j *tunnelKeeper) idle(thread *loop.Thread) {
	key, limit := "tunnel_timeout", j.m.tunnels.Idle
	if half := j.m.tunnels.Half; (j.Client.Ended || j.Up.Ended) && half < limit {
		key, limit = "read_timeout", half
	}
	j.m.Log.Info("proxy: tunnel ends, no byte has moved", "key", key, "limit", limit,
		"request_id", conn.TakeoverOf(thread).RequestID(), "upstream", j.lease.Name())
}

// idleState reports that all there is has moved, and that either side may say more.
func (j *tunnelKeeper) idleState() bool {
	return !j.Client.Ended && !j.Up.Ended && j.Client.Held() == 0 && j.Up.Held() == 0 && !j.sentClose()
}

// End implements conn.Keeper. It notes for the access log what has passed. An upstream that has not
// got all that its client has said, or whose client has failed, must not take it for an orderly
// end, nor the other way around. So there is no goodbye of TLS then.
func (j *tunnelKeeper) End(thread *loop.Thread) {
	conn.TakeoverOf(thread).SetMoved(j.Up.Got, j.Client.Got)
	if j.sentClose() {
		conn.TakeoverOf(thread).SetCloseCode(1001)
	}
	cut, cutBack := j.Up.Cut(&j.Client), j.ClientCut()
	j.Client.Stop()
	j.Up.Stop()
	if cutBack { // else conn closes it
		j.link.ResetOnClose()
		_ = j.link.Close()
	}
	if cut {
		j.stream.ResetOnClose()
		_ = j.stream.Close()
		j.lease.Release()
		return
	}
	j.lease.Close(j.stream)
}

// sentClose reports that what comes from the upstream is dropped, behind a close frame of the
// server.
func (j *tunnelKeeper) sentClose() bool { return j.frames != nil && j.frames.sentClose }

// sendGoingAway tells the client that the server stops, if no frame is under way to it. It reports
// whether it has done that.
func (j *tunnelKeeper) sendGoingAway(l *loop.Loop) bool {
	if !l.Stopping() || j.frames == nil || j.Client.Held() > 0 || j.Up.Ended {
		return false
	}
	last := j.frames.pass(nil, true)
	j.Up.Got += int64(len(last))
	j.Client.Write(last)
	return len(last) > 0
}

// await waits until bytes can move.
func (j *tunnelKeeper) await(t *loop.Thread, limit time.Duration) error {
	if j.client.readable == nil {
		j.client, j.up = sideOf(j.link), sideOf(j.stream)
	}
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
