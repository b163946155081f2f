package tcpproxy_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// waiting returns how many connections wait for a place at the upstreams of the last stream.
func (s *running) waiting() (n int) {
	s.config.Listeners[len(s.config.Listeners)-1].Stream.Upstreams(
		func(_ string, u metrics.Upstreams) {
			for _, row := range u.Report() {
				n += int(row.Waiting)
			}
		})
	return n
}

// TestLeavesQueue: a client that has reset its connection does not wait for a place any more, and
// one that has ended its half does.
func TestLeavesQueue(t *testing.T) {
	t.Parallel()
	s := serve(t, one+"'"+upstream(t, echo("."))+"'\nmax_conns = 1")
	has := s.dial()
	wants(t, has, ".")
	half, gone := s.dial(), s.dial()
	says(t, half, "all")
	must.Do(t, half.CloseWrite())
	wait.Until(t, "two wait", func() bool { return s.waiting() == 2 })
	must.Do(t, gone.SetLinger(0))
	gone.Close()
	wait.Until(t, "one waits", func() bool { return s.waiting() == 1 })
	if line := s.log(1)[0]; result(line) != "client left" {
		t.Error(line)
	}
	has.Close()
	wantsEnd(t, half, ".all")
}

// TestMaxTimeInQueue: max_time ends the wait for a place, which another stream has.
func TestMaxTimeInQueue(t *testing.T) {
	t.Parallel()
	at, came := silence(t)
	s := serve(t, "[[stream]]\naddress = '127.0.0.2:0'\n[[stream.route]]\naddress = '"+at+
		"'\nmax_conns = 1\n"+
		strings.Replace(one, "LOG\n", "LOG\nmax_time = '5m'\n", 1)+"'"+at+
		"'\nmax_conns = 1\nqueue_timeout = '1h'\n")
	_ = s.dial()
	<-came
	c := dial(t, s.all[1])
	wait.Until(t, "one waits", func() bool { return s.waiting() > 0 })
	s.skip(6 * time.Minute)
	wantsEnd(t, c, "")
	if line := s.log(1)[0]; result(line) != "max time" {
		t.Error(line)
	}
}

// TestConnectTime: {connect} has in it how long the connection has waited for its place.
func TestConnectTime(t *testing.T) {
	t.Parallel()
	s := serve(t, strings.Replace(one, "LOG",
		"access_log = { path = 'log', format = 'connect={connect} {bytes}' }", 1)+
		"'"+upstream(t, echo("."))+"'\nmax_conns = 1\n")
	a := s.dial()
	wants(t, a, ".")
	b := s.dial()
	wait.Until(t, "one waits", func() bool { return s.waiting() == 1 })
	time.Sleep(20 * time.Millisecond) // the time that is measured
	a.Close()
	wants(t, b, ".")
	b.Close()
	line := s.log(2)[1]
	m := regexp.MustCompile(`^connect=([0-9.]+) 1$`).FindStringSubmatch(line)
	if m == nil {
		t.Fatal(line)
	}
	if took := must.Get(strconv.ParseFloat(m[1], 64))(t); took < 0.02 || took > 20 {
		t.Error(line)
	}
}

// TestLongHello: what comes before the upstream is known goes there whole, though it is larger than
// the buffer with which it begins.
func TestLongHello(t *testing.T) {
	t.Parallel()
	s := serve(t,
		"[[stream]]\nLISTEN\nLOG\n[[stream.route]]\nsni = 'a.example'\naddress = '127.0.0.1:1'\n"+
			"[[stream.route]]\naddress = '"+upstream(t, echo(""))+"'\n")
	for _, size := range []int{4<<10 - 1, 4 << 10, 4<<10 + 1, 9000, 15 << 10} {
		// A record of a handshake, and in it a ClientHello that is not whole.
		text := "\x16\x03\x01\x3f\xf0\x01\x00\x3f\xe0" + strings.Repeat("x", size-9)
		c := s.dial()
		for at := 0; at < size; at += 1000 {
			says(t, c, text[at:min(at+1000, size)])
			s.settle()
		}
		_ = c.CloseWrite()
		wantsEnd(t, c, text)
	}
}
