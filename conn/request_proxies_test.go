package conn_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

func withProtocol(p *conn.Proxies) *conn.Proxies {
	p.Protocol = true
	return p
}

const line1 = "PROXY TCP4 192.0.2.1 203.0.113.7 56324 443\r\n"

// binary makes a header of version 2 for the same addresses, with bytes behind them.
func binary(command byte, more string) string {
	const addresses = "\xc0\x00\x02\x01\xcb\x00\x71\x07\xdc\x04\x01\xbb"
	n := len(addresses) + len(more)
	return "\r\n\r\n\x00\r\nQUIT\n" + string([]byte{0x20 | command, 0x11, byte(n >> 8), byte(n)}) +
		addresses + more
}

// headed sends a header ahead of the first bytes that are written, together with them.
type headed struct {
	*net.TCPConn
	header string
}

func (h *headed) Write(p []byte) (int, error) {
	n := len(h.header)
	written, err := h.TCPConn.Write(append([]byte(h.header), p...))
	h.header = ""
	return max(written-n, 0), err
}

// dialHeaded connects with a header: a byte at a time, or together with what comes first.
func dialHeaded(s *site, header string, bytewise bool) *client {
	s.T.Helper()
	raw := must.Dial(s.T, "tcp", s.Addr)
	s.T.Cleanup(func() { raw.Close() })
	_ = raw.SetDeadline(time.Now().Add(wait.Patience))
	c := net.Conn(&headed{raw.(*net.TCPConn), header})
	if bytewise {
		for i := range header {
			send(s.T, raw, header[i:i+1])
		}
		c = raw
	}
	if s.Mode.TLS {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	return server.NewClient(s.T, c)
}

// ends answers with the ends of the connection.
func ends(req *conn.Request, resp *conn.Response) int {
	fmt.Fprintf(resp, "%v %v %v", req.RemoteAddr(), req.LocalAddr(), req.PeerAddr())
	return 200
}

func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: ends,
			Proxies: only(withProtocol(trusting("127.0.0.1/32")))})
		const known = "192.0.2.1:56324 203.0.113.7:443 self"
		for _, x := range []struct{ header, want string }{
			{line1, known},
			{binary(1, ""), known},
			{binary(1, strings.Repeat("t", 300)), known},
			{binary(1, strings.Repeat("t", 65000)), known},
			{binary(0, ""), "self server self"},
			{"PROXY UNKNOWN\r\n", "self server self"},
			{"PROXY TCP6 2001:db8::1 ::1 7 8\r\n", "[2001:db8::1]:7 [::1]:8 self"},
			{"\r\n\r\n\x00\r\nQUIT\n\x21\x31\x00\xd8" + strings.Repeat("\x00", 216),
				"invalid AddrPort invalid AddrPort self"},
		} {
			for _, bytewise := range []bool{false, true} {
				if bytewise && len(x.header) > 1000 {
					continue
				}
				c := dialHeaded(s, x.header, bytewise)
				for range 2 {
					got := strings.ReplaceAll(c.Do("GET", get).Text, c.LocalAddr().String(), "self")
					if got = strings.Replace(got, s.Addr, "server", 1); got != x.want {
						t.Errorf("%.30q: got %q, want %q", x.header, got, x.want)
					}
				}
				c.Close()
			}
		}
		s.Idle()
	})
}

// TestProxyProtocolSecure: whether a plain connection's client uses https, as far as the header
// says, however it arrives.
func TestProxyProtocolSecure(t *testing.T) {
	t.Parallel()
	s := start(t, direct, conn.Config{
		Proxies: only(withProtocol(trusting("127.0.0.1/32"))),
		Handler: func(req *conn.Request, resp *conn.Response) int {
			fmt.Fprint(resp, req.Secure(), req.TLS() != nil)
			return 200
		}})
	const other, ssl, plain = "\x03\x00\x04abcd", "\x20\x00\x05\x01\x00\x00\x00\x00",
		"\x20\x00\x05\x00\x00\x00\x00\x00"
	for _, x := range []struct {
		header string
		secure bool
	}{
		{line1, true}, // to port 443
		{"PROXY TCP4 192.0.2.1 203.0.113.7 443 80\r\n", false},
		{"PROXY TCP4 192.0.2.1 203.0.113.7 443 8443\r\n", false},
		{"PROXY UNKNOWN\r\n", false},
		{binary(1, ""), true}, // to port 443
		{binary(1, other), true},
		{binary(1, other+ssl), true},
		{binary(1, plain), false},
		{binary(1, strings.Repeat(other, 9000)+plain), false},
		{strings.Replace(binary(1, ssl), "\x01\xbb", "\x00\x50", 1), true},
		{strings.Replace(binary(1, other+other+ssl+other), "\x01\xbb", "\x00\x50", 1), true},
		{strings.Replace(binary(1, strings.Repeat(other, 9000)+ssl), "\x01\xbb", "\x00\x50", 1), true},
		{binary(0, ssl), false}, // the proxy's own connection
	} {
		for _, bytewise := range []bool{false, true} {
			if bytewise && len(x.header) > 1000 {
				continue
			}
			c := dialHeaded(s, x.header, bytewise)
			for range 2 {
				want := fmt.Sprint(x.secure, false)
				if got := c.Do("GET", get).Text; got != want {
					t.Errorf("%.30q, %d bytes: got %s, want %s", x.header, len(x.header), got, want)
				}
			}
			c.Close()
		}
	}
}

// closed reports whether the server has closed c without a word.
func closed(t *testing.T, c net.Conn) bool {
	t.Helper()
	b, err := io.ReadAll(c)
	return len(b) == 0 && (err == nil || errors.Is(err, syscall.ECONNRESET))
}

func TestProxyProtocolRefused(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: ends, Limits: conn.Limits{HeaderTimeout: time.Hour},
			Proxies: only(withProtocol(trusting("127.0.0.1/32")))})
		for _, x := range []struct{ from, sent, why string }{
			{"127.0.0.1", get, "no header"},
			{"127.0.0.1", "\x16\x03\x01\x00\x05hello", "TLS without a header"},
			{"127.0.0.1", "PROXY TCP4 x\r\n" + get, "malformed"},
			{"127.0.0.1", binary(2, ""), "an unknown command"},
			{"127.0.0.1", line1[:10], "not complete in time"},
			{"127.0.0.1", binary(1, "TLVs")[:30], "not complete in time, behind the addresses"},
			{"127.0.0.1", "", "nothing in time"},
			{"127.0.0.2", line1 + get, "not a trusted proxy"},
		} {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(x.from)}}
			c := must.Get(d.Dial("tcp", s.Addr))(t)
			_ = c.SetDeadline(time.Now().Add(wait.Patience))
			_, _ = io.WriteString(c, x.sent) // it may be closed already
			if strings.Contains(x.why, "in time") {
				s.Skip(time.Hour)
			}
			if !closed(t, c) {
				t.Errorf("%s: got an answer, or none in time", x.why)
			}
			c.Close()
		}
		s.Idle()
		for _, want := range []string{"not among trusted_proxies", "something else has come"} {
			if n := strings.Count(s.Log.String(), want); n != 1 {
				t.Errorf("%d lines with %q, want one a minute:\n%s", n, want, s.Log)
			}
		}
	})
}

// A connection counts as that of the client that the header names, and a proxy's connections are
// not limited.
func TestProxyProtocolLimit(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m,
			conn.Config{Handler: ends,
				Limits:  conn.Limits{MaxConnectionsPerAddress: 2, HeaderTimeout: wait.Patience},
				Proxies: only(withProtocol(trusting("127.0.0.0/8")))})
		header := func(ip string) string {
			return strings.Replace(line1, "192.0.2.1", ip, 1)
		}
		var open []*client
		for _, ip := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.2", "127.0.0.9", "127.0.0.9",
			"127.0.0.9"} {
			c := dialHeaded(s, header(ip), false)
			c.Do("GET", get)
			open = append(open, c)
		}
		// For a third connection of one client one of its own gives way, which is idle.
		c := dialHeaded(s, header("192.0.2.1"), false)
		if got := c.Do("GET", get); got.StatusCode != 200 {
			t.Errorf("a third connection of one client: got %d", got.StatusCode)
		}
		s.Settled("one has given way", func(*loop.Loop) bool { return s.Active() == len(open) })
		for _, other := range open[2:] {
			other.Do("GET", get)
		}
		c.Close()
		open[0].Close()
		wait.Until(t, "room for another one", func() bool {
			c := dialHeaded(s, header("192.0.2.1"), false)
			defer c.Close()
			_, _ = io.WriteString(c, get)
			line, _ := c.R.ReadString('\n')
			return strings.HasPrefix(line, "HTTP/1.1 200 ")
		})
		for _, c := range open {
			c.Close()
		}
		s.Idle()
	})
}

// The /64s of an IPv6 /48 leave half of all places to others, whatever each of them may have.
func TestProxyProtocolLimitOfSite(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m,
			conn.Config{Handler: ends,
				Limits: conn.Limits{MaxConnections: 16, MaxConnectionsPerAddress: 4,
					HeaderTimeout: wait.Patience}, Proxies: only(withProtocol(trusting("127.0.0.0/8")))})
		enter := func(client string) *client {
			line := fmt.Sprintf("PROXY TCP6 %s 2001:db8:ffff::1 50000 443\r\n", client)
			if strings.Contains(client, ".") {
				line = strings.Replace(line1, "192.0.2.1", client, 1)
			}
			return dialHeaded(s, line, false)
		}
		for i := range 8 {
			if got := enter(fmt.Sprintf("2001:db8:0:%d::1", i)).Do("GET", get); got.StatusCode != 200 {
				t.Errorf("/64 number %d: %s", i, got.Status)
			}
		}
		c := enter("2001:db8:0:99::1")
		if m.TLS {
			if _, err := io.WriteString(c, get); err == nil {
				t.Error("more than half are of one /48")
			}
		} else if got := c.Do("GET", get); got.StatusCode != 503 {
			t.Errorf("more than half are of one /48: got %d", got.StatusCode)
		}
		for _, other := range []string{"2001:db8:1::1", "192.0.2.7"} {
			if got := enter(other).Do("GET", get); got.StatusCode != 200 {
				t.Errorf("%s: %s", other, got.Status)
			}
		}
	})
}

// Switching the protocol on or off leaves the connections that there are.
func TestProxyProtocolReload(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		off := conn.Config{Handler: ends}
		on := conn.Config{Handler: ends, Proxies: only(withProtocol(trusting("127.0.0.0/8")))}
		s := start(t, m, off)
		plain := s.Dial()
		plain.Do("GET", get)
		s.Configure(on)
		if got := plain.Do("GET", get).Text; !strings.HasPrefix(got, plain.LocalAddr().String()) {
			t.Errorf("without a header: %q", got)
		}
		c := dialHeaded(s, line1, false)
		c.Do("GET", get)
		s.Configure(off)
		if got := c.Do("GET", get).Text; !strings.HasPrefix(got, "192.0.2.1:56324 ") {
			t.Errorf("with a header: %q", got)
		}
	})
}
