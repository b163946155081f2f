package main

import (
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// threadConns are connections to a Redis on green threads. The driver, redigo, takes a net.Conn and
// has no goroutine of its own: it reads and writes where it is called. So its calls yield, and no
// worker is needed. A stream belongs to its loop, and any thread of that loop may use it, one at a
// time; so the connections that are kept between requests are kept for each loop.
type threadConns struct {
	address string
	loops   sync.Map // *loop.Loop: *idle
}

// idle is the connections of a loop, which alone touches it. The last one was used last.
type idle struct{ conns []threadConn }

type threadConn struct {
	stream *stream.Conn
	redis  redis.Conn
}

// maxIdle is how many connections a loop keeps.
const maxIdle = 64

// do runs a command, which may run twice: a kept connection may have ended since it was used. The
// error is lwango.ErrDeadlineExceeded, lwango.ErrClientGone, or the driver's.
func (c *threadConns) do(t *loop.Thread, limit time.Duration, command string,
	args ...any) (any, error) {
	mine, ok := c.loops.Load(t.Loop())
	if !ok {
		mine, _ = c.loops.LoadOrStore(t.Loop(), new(idle))
	}
	idle, until := mine.(*idle), time.Now().Add(limit)
	for {
		conn, kept, err := c.connect(t, idle, until)
		if err != nil {
			return nil, err
		}
		reply, err := conn.do(idle, until, command, args...)
		over := errors.Is(err, lwango.ErrDeadlineExceeded) || errors.Is(err, lwango.ErrClientGone) ||
			errors.Is(err, lwango.ErrCanceled)
		if kept && conn.redis.Err() != nil && !over {
			continue // with another, at last with a new one
		}
		return reply, err
	}
}

func (c *threadConns) connect(t *loop.Thread, idle *idle,
	until time.Time) (_ threadConn, kept bool, err error) {
	if n := len(idle.conns); n > 0 {
		conn := idle.conns[n-1]
		idle.conns = idle.conns[:n-1]
		return conn, true, nil
	}
	s, err := stream.Dial(t, max(time.Until(until), 1), "tcp", c.address)
	if err != nil {
		return threadConn{}, false, err
	}
	return threadConn{s, redis.NewConn(s, 0, 0)}, false, nil
}

// do runs a command and keeps the connection if that is in order.
func (conn threadConn) do(idle *idle, until time.Time, command string, args ...any) (any, error) {
	keep := false
	defer func() { // also when the thread is killed
		if keep {
			idle.conns = append(idle.conns, conn)
		} else {
			_ = conn.redis.Close()
		}
	}()
	if err := conn.stream.SetWriteDeadline(until); err != nil {
		return nil, err
	}
	reply, err := redis.DoWithTimeout(conn.redis, max(time.Until(until), 1), command, args...)
	keep = conn.redis.Err() == nil && len(idle.conns) < maxIdle
	return reply, err
}

func (c *threadConns) find(req *lwango.Request, limit time.Duration, id int64) (item, error) {
	name, err := redis.String(c.do(req.Thread, limit, "GET", key(id)))
	if errors.Is(err, redis.ErrNil) {
		err = errNone
	}
	return item{id, name}, err
}

func (c *threadConns) save(req *lwango.Request, limit time.Duration, it item) error {
	_, err := c.do(req.Thread, limit, "SET", key(it.ID), it.Name)
	return err
}
