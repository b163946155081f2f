package conn_test

import (
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestHTTP2SmallAnswersUntaken: as TestSmallAnswersUntaken, over HTTP/2. The next requests are
// answered behind what had no room.
func TestHTTP2SmallAnswersUntaken(t *testing.T) {
	run2(t, func(t *testing.T, m mode) {
		_, r, asked := smallAnswers2(t, m, wait.Patience)
		for range 3 {
			r.get(2*asked + 1).flush()
			asked++
		}
		r.numbers(asked)
	})
}

// TestHTTP2SmallAnswersStop: a stop waits for a client that still takes its answers.
func TestHTTP2SmallAnswersStop(t *testing.T) {
	run2(t, func(t *testing.T, m mode) {
		s, r, asked := smallAnswers2(t, m, wait.Patience)
		s.On(func(l *loop.Loop) { l.Stop(wait.Patience) })
		r.numbers(asked)
		if got := r.until(http2.Headers, http2.GoAway); got != "GOAWAY NO_ERROR" {
			t.Errorf("%s behind the last answer", got)
		}
	})
}

// TestHTTP2SmallAnswersNeverTaken: a client that takes nothing has write_timeout.
func TestHTTP2SmallAnswersNeverTaken(t *testing.T) {
	run2(t, func(t *testing.T, m mode) {
		s, _, _ := smallAnswers2(t, m, wait.Patience)
		wait.Until(t, "the end of the connection", func() bool {
			s.Skip(wait.Patience)
			return s.Active() == 0
		})
	})
}

// numbers reads the first n answers of smallAnswers2.
func (r *raw2) numbers(n uint32) {
	r.t.Helper()
	for i := range n {
		if got := r.number(); got != i {
			r.t.Fatalf("answer %d, want %d of %d", got, i, n)
		}
	}
}

// number returns the number of the next answer of smallAnswers2.
func (r *raw2) number() uint32 {
	r.t.Helper()
	for {
		switch h, payload := r.next(); h.Type {
		case http2.Headers:
			var f http2.Fields
			f.Reset(1 << 20)
			must.Do(r.t, new(http2.Decoder).Decode(payload, &f))
			n := uint32(0)
			f.Each(func(name, value []byte) {
				if string(name) == "x-number" {
					first, _, _ := strings.Cut(string(value), " ")
					n = uint32(must.Get(strconv.Atoi(first))(r.t))
					if string(value) != numbered(int(n))[:len(value)] || len(value) < 1000 {
						r.t.Fatalf("the answer is %q", value)
					}
				}
			})
			return n
		case http2.GoAway, 255:
			r.t.Fatal("the connection ends early")
		}
	}
}

// smallAnswers2 asks a server for numbered fields, each when the one before was answered, until the
// loop has a remainder, and takes none.
func smallAnswers2(t *testing.T, m mode, limit time.Duration) (s *site, r *raw2, asked uint32) {
	m.Loops = 1 // for Settled
	var answered atomic.Uint32
	s = start(t, m, conn.Config{Limits: conn.Limits{WriteTimeout: limit, KeepAliveTimeout: limit},
		Handler: func(_ *conn.Request, w *conn.Response) int {
			n := answered.Add(1) - 1
			w.Header().Set("X-Number", strings.TrimSpace(numbered(int(n))))
			return 204
		}})
	s.On(func(l *loop.Loop) { l.Layer().PutOffAlways() })
	d := net.Dialer{Control: func(_, _ string, rc syscall.RawConn) (err error) {
		_ = rc.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10)
		})
		return err
	}}
	c := must.Get(d.Dial("tcp", s.Addr))(t)
	t.Cleanup(func() { c.Close() })
	if m.TLS {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	}
	r = &raw2{t: t, Conn: c, out: []byte(http2.Preface)}
	r.frame(http2.SettingsFrame, 0, 0, "")
	for enough := false; !enough; asked++ {
		r.get(2*asked + 1).flush()
		s.Settled("an answer", func(l *loop.Loop) bool {
			enough = owing(l)
			return enough || answered.Load() == asked+1
		})
	}
	return s, r, asked
}
