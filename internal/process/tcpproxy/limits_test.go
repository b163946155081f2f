package tcpproxy_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// silence is an upstream that keeps its connections and says nothing. They come by the channel.
func silence(t *testing.T) (at string, came <-chan *net.TCPConn) {
	conns, ended := make(chan *net.TCPConn, 100), make(chan struct{})
	at = upstream(t, func(c *net.TCPConn) {
		conns <- c
		<-ended
	})
	t.Cleanup(func() { close(ended) }) // before upstream waits for them
	return at, conns
}

// result returns how the connection of a line has ended.
func result(line string) string {
	parts := strings.Split(line, `"`)
	return parts[len(parts)-2]
}

// wantsLimit checks that a line names a limit as what has ended its connection.
func wantsLimit(t *testing.T, line, result, key, limit string) {
	t.Helper()
	if want := `"` + result + `" ` + key + " " + limit; !strings.HasSuffix(line, want) {
		t.Errorf("%s\nwant %s at the end", line, want)
	}
}

// TestIdleTimeout: a byte in either direction keeps a connection, and silence ends it.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	at, came := silence(t)
	s := serve(t, one+"'"+at+"'")
	c := s.dial()
	up := <-came
	for range 3 {
		s.skip(9 * time.Minute)
		says(t, c, "x")
		wants(t, up, "x")
		s.skip(9 * time.Minute)
		says(t, up, "y")
		wants(t, c, "y")
	}
	s.settle()
	s.skip(10*time.Minute + time.Second)
	wantsEnd(t, c, "")
	wantsEnd(t, up, "")
	wantsLimit(t, s.log(1)[0], "idle timeout", "idle_timeout", "10m0s")
}

// TestMaxTime: max_time ends a connection on which bytes move, one a minute.
func TestMaxTime(t *testing.T) {
	t.Parallel()
	at, came := silence(t)
	s := serve(t, strings.Replace(one, "LOG\n", "LOG\nmax_time = '30m'\n", 1)+"'"+at+"'")
	c := s.dial()
	up := <-came
	minutes := 0
	for ; minutes < 60; minutes++ {
		s.skip(time.Minute)
		if _, err := io.WriteString(c, "x"); err != nil {
			break
		}
		if _, err := io.ReadFull(up, make([]byte, 1)); err != nil {
			break
		}
	}
	if minutes < 28 || minutes > 31 {
		t.Errorf("%d minutes", minutes)
	}
	wantsLimit(t, s.log(1)[0], "max time", "max_time", "30m0s")
}

// TestHeaderTimeout: a client that does not say what it must is closed in time, with a coroutine
// and without.
func TestHeaderTimeout(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\x16\x03"} {
		s := serve(t,
			"[[stream]]\nLISTEN\nLOG\n[[stream.route]]\nsni = 'a.example'\naddress = '127.0.0.1:1'")
		c := s.dial()
		says(t, c, text)
		wait.Until(t, "the connection", func() bool { return s.counts().Open == 1 })
		s.settle()
		s.skip(11 * time.Second)
		wantsEnd(t, c, "")
		wantsLimit(t, s.log(1)[0], "header timeout", "header_timeout", "10s")
	}
}

// TestNeverReads: what a client does not read waits at the upstream, and idle_timeout ends it.
func TestNeverReads(t *testing.T) {
	t.Parallel()
	sent := make(chan int64, 1)
	s := serve(t, one+"'"+upstream(t, func(c *net.TCPConn) {
		n, _ := io.Copy(c, io.LimitReader(zeroes{}, 1<<30))
		sent <- n
	})+"'")
	c := s.dial()
	_ = c.SetReadBuffer(4 << 10)
	standsStill(t, func() int64 { return s.counts().Sent })
	wait.Until(t, "idle_timeout", func() bool { // a last segment may have moved, which counts
		s.skip(11 * time.Minute)
		return s.counts().Open == 0
	})
	if n := <-sent; n >= 1<<30 {
		t.Errorf("the upstream could send %d bytes", n)
	}
	wantsLimit(t, s.log(1)[0], "idle timeout", "idle_timeout", "10m0s")
}

// standsStill waits until what moves does so no more: TCP's windows are full.
func standsStill(t *testing.T, moved func() int64) {
	t.Helper()
	var before int64
	same := 0 // times in a row
	wait.Until(t, "an end of what moves", func() bool {
		time.Sleep(20 * time.Millisecond)
		now := moved()
		if same++; now != before || now == 0 {
			same = 0
		}
		before = now
		return same >= 15 // with a small window, a kernel sends every 200 ms
	})
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { return len(p), nil }

// TestPerAddress: one client cannot have all connections, and gets another when one of its own has
// ended.
func TestPerAddress(t *testing.T) {
	t.Parallel()
	s := serve(t,
		strings.Replace(one, "LOG\n", "max_connections = 3\nmax_connections_per_address = 2\n", 1)+
			"'"+upstream(t, echo("."))+"'")
	from := func(address string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		c := must.Get(d.Dial("tcp", s.at))(t)
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(wait.Patience))
		return c
	}
	served := func(c net.Conn) bool {
		n, _ := c.Read(make([]byte, 1))
		return n == 1
	}
	a, b := from("127.0.0.1"), from("127.0.0.1")
	if !served(a) || !served(b) || served(from("127.0.0.1")) {
		t.Error("127.0.0.1 has not got two connections")
	}
	if !served(from("127.0.0.2")) || served(from("127.0.0.3")) {
		t.Error("there are not three")
	}
	a.Close()
	wait.Until(t, "the end", func() bool { return s.counts().Open == 2 })
	if !served(from("127.0.0.1")) {
		t.Error("none after one has ended")
	}
	if n := s.counts(); n.Refused != 2 || n.Accepted != 6 {
		t.Errorf("counts: %+v", n)
	}
}

// TestMaxConns: connections wait for a place at the upstream.
func TestMaxConns(t *testing.T) {
	t.Parallel()
	s := serve(t, one+"'"+upstream(t, echo("."))+
		"'\nmax_conns = 1\nmax_queue = 1\nqueue_timeout = '20s'")
	a := s.dial()
	wants(t, a, ".")
	b := s.dial()
	says(t, b, "x")
	c := s.dial()
	if got := result(s.log(1)[0]); got != "upstream busy" {
		t.Error(got)
	}
	_ = c
	a.Close()
	wants(t, b, ".x")
}
