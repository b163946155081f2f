package server

import (
	"crypto/tls"
	"io"
	"net"
	"time"

	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"

	"golang.org/x/sys/unix"
)

// Unworked waits until no coroutine has work.
func (s *Server) Unworked() {
	s.T.Helper()
	s.Settled("an end of all work", func(l *loop.Loop) bool { return l.Stats().Working == 0 })
}

// IdleBytes returns what each of many connections takes that are idle, after what use has done with
// them and so much time. Before them there are others. It returns when all have left.
func (s *Server) IdleBytes(before, many int, later time.Duration, use func(c io.ReadWriter)) int64 {
	s.T.Helper()
	ends := make([]int, 0, before+many) // of the clients: no memory of ours
	connect := func(n int) int64 {
		for range n {
			nc := must.Get(net.Dial("tcp", s.Addr))(s.T)
			f := must.Get(nc.(*net.TCPConn).File())(s.T)
			ends = append(ends, must.Get(unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0))(s.T))
			f.Close()
			var c io.ReadWriter = nc
			if s.Mode.TLS {
				c = tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
			}
			use(c)
			nc.Close()
		}
		s.Settle()
		s.Skip(later)
		s.Unworked()
		return leak.InUse()
	}
	first := connect(before)
	per := (connect(many) - first) / int64(many)
	for _, fd := range ends {
		unix.Close(fd)
	}
	s.Idle()
	return per
}

// IdleStreamBytes returns what each of many idle streams of HTTP/2 takes, a hundred on a
// connection. They are opened as Streams does.
func (s *Server) IdleStreamBytes(fields []string, content, want string) int64 {
	s.T.Helper()
	const conns, each = 10, 100
	defer s.Streams(each, fields, content, want).Close()
	s.Unworked()
	first := leak.InUse()
	for range conns {
		defer s.Streams(each, fields, content, want).Close()
	}
	s.Unworked()
	return (leak.InUse() - first) / (conns * each)
}
