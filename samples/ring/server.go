package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/wire/http1"
)

// server is what all connections share.
type server struct {
	// Settings, and descriptors.
	text                                 string // the answer to everything; "" for files
	most                                 int    // connections
	idleTime, headTime, stallTime, grace time.Duration
	listener, root                       int
	stop                                 int // can be read when the server is to stop

	connections map[*connection]None

	// A task takes a place before it accepts, and the connection that comes has it from then on. It
	// is given back by leave: at the connection's end, or if there is none. That wakes the task that
	// has waited for a place for the longest time.
	places   int      // connections, and tasks that accept one
	waiting  []*fiber // tasks that are to accept one, and have no place
	accepted uint64   // connections so far
	polling  bool     // a task waits for a client that there is no place for
	full     bool     // no connection is idle that could make room
	stopping bool

	date   []byte // of this second
	second int64

	reported time.Time // when the last line was logged, for the lines that may be many
	silent   int       // how many were not logged since
}

var (
	errStop     = errors.New("the server stops")
	errReplaced = errors.New("the place of this idle connection is needed for another one")
)

// acceptors is how many tasks accept. A ring takes one connection for each entry, so this is how
// many a turn may bring.
const acceptors = 16

// serve accepts connections until the server is to stop. Then it gives answers that are under way
// some time.
func (s *server) serve(c *Context) (None, error) {
	s.connections = make(map[*connection]None)
	return None{}, WithScope(c, s.report, func(all *Scope) error {
		accept := Then(UponError(s.accept, s.pause), func(c *Context, fd int) (None, error) {
			if fd >= 0 {
				k := &connection{server: s, fd: fd}
				s.connections[k] = None{}
				s.accepted++
				all.Spawn(k.serve)
			}
			return None{}, nil
		})
		tasks := []Task[None]{func(c *Context) (None, error) {
			if err := c.Readable(s.stop); err != nil {
				return None{}, err
			}
			return None{}, errStop
		}}
		for range acceptors {
			tasks = append(tasks, forever(accept))
		}
		_, err := WhenAll(tasks...)(c)
		_ = unix.Close(s.listener)
		if err != errStop {
			return err
		}
		slog.Info("stopping", "connections", len(s.connections))
		s.stopping = true
		for k := range s.connections {
			if k.waits && k.fiber.state == operating { // else a request has come, and gets its answer
				k.fiber.cancel(errStop)
			}
		}
		if !all.Join(s.grace) {
			all.Cancel(errStop)
		}
		return nil
	})
}

// forever is t, again and again until it fails.
func forever[T any](t Task[T]) Task[T] {
	return func(c *Context) (value T, err error) {
		for err == nil {
			value, err = t(c)
		}
		return value, err
	}
}

// accept accepts a connection when there is a place for it. If connections have all places, one has
// to make room, but not before a client waits for that.
func (s *server) accept(c *Context) (fd int, err error) {
	for s.places >= s.most {
		if len(s.connections) >= s.most && !s.polling { // else some places are of tasks that accept
			before := s.accepted
			s.polling = true
			err := c.Readable(s.listener)
			s.polling = false
			if err != nil {
				return -1, err
			}
			if s.accepted != before || len(s.connections) < s.most {
				continue // the client may have got a place that has become free meanwhile
			}
			s.makeRoom()
		}
		s.waiting = append(s.waiting, c.running)
		if err := c.Park(); err != nil {
			s.waiting = nil // all tasks that accept end
			return -1, err
		}
	}
	s.places++
	if fd, err = c.Accept(s.listener); err != nil {
		s.leave()
	}
	return fd, err
}

// leave gives a place back.
func (s *server) leave() {
	s.places--
	s.full = false
	if len(s.waiting) > 0 {
		s.waiting[0].unpark()
		s.waiting = s.waiting[1:]
	}
}

// pause decides what an error of accept means. Without descriptors, or a network, it lets some time
// pass, in which connections end.
func (s *server) pause(c *Context, err error) (fd int, _ error) {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return -1, err // the task is to end
	}
	switch errno {
	case unix.ECONNABORTED, unix.EPROTO, unix.EPERM:
		return -1, nil // the client has left, or a firewall has refused it
	case unix.EBADF, unix.EINVAL, unix.ENOTSOCK:
		return -1, err // the listener is none
	}
	s.log("accepting pauses", "error", err)
	if sysio.Exhausted(err) {
		s.makeRoom()
	}
	return -1, c.Sleep(100 * time.Millisecond)
}

// makeRoom ends the connection that has been idle for the longest time. If none is, connections end
// with their present answer until there is room.
func (s *server) makeRoom() {
	var oldest *connection
	for k := range s.connections {
		if k.idle && k.fiber.state == operating && (oldest == nil || k.since < oldest.since) {
			oldest = k
		}
	}
	if oldest == nil {
		s.full = true
		s.log("no room for another connection", "connections", len(s.connections))
		return
	}
	oldest.fiber.cancel(errReplaced)
}

// report logs the error of a connection.
func (s *server) report(err error) { s.log("connection ended", "error", err) }

// log logs a line, but one each second at most: many clients may fail at once.
func (s *server) log(message string, args ...any) {
	if time.Since(s.reported) < time.Second {
		s.silent++
		return
	}
	slog.Warn(message, append(args, "not_logged", s.silent)...)
	s.reported, s.silent = time.Now(), 0
}

// now returns the Date of an answer.
func (s *server) now() []byte {
	if now := time.Now(); now.Unix() != s.second {
		s.second, s.date = now.Unix(), http1.AppendDate(s.date[:0], now)
	}
	return s.date
}

// listen opens a listening socket. Package net is not for it: its sockets are O_NONBLOCK, and
// operations of a ring fail with EAGAIN there and do not wait.
func listen(address string) (fd int, err error) {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return -1, err
	}
	at := resolved.AddrPort()
	if !at.IsValid() { // ":8080"
		at = netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(resolved.Port))
	}
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	sa, err := sysio.Sockaddr(at)
	if err != nil {
		return -1, err
	}
	family := unix.AF_INET6
	if at.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // accepted sockets inherit it
	if err = unix.Bind(fd, sa); err == nil {
		err = unix.Listen(fd, 4096)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return fd, nil
}
