package tcpproxy_test

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

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/proxyproto"
)

// secure is an upstream that speaks TLS and says its name.
func secure(t *testing.T, a *certs.Authority, name string) string {
	config := a.Config(name, "*."+name)
	return upstream(t, func(c *net.TCPConn) {
		s := tls.Server(c, config)
		_, _ = io.WriteString(s, name)
		_, _ = io.Copy(s, s)
		_ = s.CloseWrite()
	})
}

// bySNI is a stream with three routes.
func bySNI(t *testing.T, a *certs.Authority) *running {
	return serve(t, "[[stream]]\nLISTEN\nLOG\n"+
		"[[stream.route]]\nsni = ['a.example', '*.c.example']\naddress = '"+secure(t, a, "a.example")+
		"'\n"+
		"[[stream.route]]\nsni = '*.example'\naddress = '"+secure(t, a, "b.example")+"'\n"+
		"[[stream.route]]\naddress = '"+upstream(t, echo("other"))+"'\n")
}

// pieces sends what is written in pieces of n bytes, each of which is likely a segment.
type pieces struct {
	*net.TCPConn
	n int
}

func (p pieces) Write(b []byte) (sent int, err error) {
	for sent < len(b) && err == nil {
		var k int
		k, err = p.TCPConn.Write(b[sent:min(sent+p.n, len(b))])
		sent += k
	}
	return sent, err
}

// TestSNI: the name leads to its upstream, whose TLS is its own, in however many segments it comes.
func TestSNI(t *testing.T) {
	t.Parallel()
	a := certs.New(t)
	s := bySNI(t, a)
	for _, test := range []struct{ name, want string }{
		{"a.example", "a.example"}, {"A.Example", "a.example"}, {"x.c.example", "a.example"},
		{"b.example", "b.example"}, {"c.example", "b.example"}, {"x.y.example", "b.example"},
	} {
		for _, n := range []int{1, 7, 1 << 20} {
			c := tls.Client(pieces{s.dial(), n},
				&tls.Config{ServerName: test.name, InsecureSkipVerify: true})
			wants(t, c, test.want)
			says(t, c, "hello")
			_ = c.CloseWrite()
			wantsEnd(t, c, "hello")
			c.Close()
		}
	}
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01"} {
		c := s.dial()
		says(t, c, text)
		_ = c.CloseWrite()
		wantsEnd(t, c, "other"+text)
	}
	if line := s.log(18)[0]; !strings.Contains(line, `"a.example"`) || result(line) != "complete" {
		t.Error(line)
	}
}

// TestNoRoute: without a route for other names, these are closed.
func TestNoRoute(t *testing.T) {
	t.Parallel()
	s := serve(t,
		"[[stream]]\nLISTEN\nLOG\n[[stream.route]]\nsni = 'a.example'\naddress = '127.0.0.1:1'\n")
	c := s.dial()
	if err := tls.Client(c, &tls.Config{ServerName: "b.example"}).Handshake(); err == nil {
		t.Error("a handshake")
	}
	if got := result(s.log(1)[0]); got != "no route" {
		t.Error(got)
	}
}

// TestHelloCut: a client that leaves within its hello leaves nothing behind.
func TestHelloCut(t *testing.T) {
	t.Parallel()
	a := certs.New(t)
	s := bySNI(t, a)
	client, server := net.Pipe()
	go func() { _ = tls.Client(client, &tls.Config{ServerName: "a.example"}).Handshake() }()
	buf := make([]byte, 4096)
	n := must.Get(server.Read(buf))(t)
	client.Close()
	step := 1 + n/150
	for i := 0; i < n; i += step {
		c := s.dial()
		_, _ = c.Write(buf[:i])
		_ = c.SetLinger(0)
		c.Close()
	}
	wait.Until(t, "the ends", func() bool {
		now := s.counts()
		return now.Open == 0 && now.Accepted >= int64((n+step-1)/step)
	})
}

// TestTLS: a stream that ends TLS leads by the name as well, and an upstream with tls:// is spoken
// TLS with and verified.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := certs.New(t)
	cert, key := a.Files(a.Issue(time.Hour, "a.example", "b.example"))
	ca := a.File
	text := fmt.Sprintf("[[stream]]\nLISTEN\nLOG\ntls = { cert = %q, key = %q }\n", cert, key)
	s := serve(t, text+"[[stream.route]]\nsni = 'a.example'\naddress = '"+upstream(t, echo("plain "))+
		"'\n"+
		"[[stream.route]]\nsni = 'b.example'\naddress = 'tls://"+secure(t, a, "up.example")+
		"'\ntls = { ca = '"+ca+"', name = 'up.example' }\n"+
		"[[stream.route]]\naddress = 'tls://"+secure(t, a, "up.example")+"'\ntls = { ca = '"+ca+
		"', name = 'down.example' }\n")
	const size = 3 << 20
	for name, want := range map[string]string{"a.example": "plain ", "b.example": "up.example"} {
		c := tls.Client(s.dial(), &tls.Config{ServerName: name, InsecureSkipVerify: true})
		wants(t, c, want)
		go func() {
			_, _ = io.CopyN(c, zeroes{}, size)
			_ = c.CloseWrite()
		}()
		if n, err := io.Copy(io.Discard, c); n != size || err != nil {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
	c := tls.Client(s.dial(), &tls.Config{InsecureSkipVerify: true})
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("an upstream that is not verified: %d, %v", n, err)
	}
	lines := strings.Join(s.log(3), "\n")
	if !strings.Contains(lines, `"b.example" tls://`) ||
		!strings.Contains(lines, `"upstream failed"`) {
		t.Error(lines)
	}
}

// TestTLSCut: a client whose upstream is reset is reset, too, and gets no goodbye of TLS.
func TestTLSCut(t *testing.T) {
	t.Parallel()
	a := certs.New(t)
	cert, key := a.Files(a.Issue(time.Hour, "a.example"))
	s := serve(t, fmt.Sprintf("[[stream]]\nLISTEN\ntls = { cert = %q, key = %q }\n", cert, key)+
		"[[stream.route]]\naddress = '"+upstream(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		_ = c.SetLinger(0)
	})+"'\n")
	raw := &recorder{Conn: s.dial()}
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	says(t, c, "x")
	if got, err := io.ReadAll(c); len(got) > 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %q, %v", got, err)
	}
	const alert = 21
	for b := raw.got; len(b) >= 5; b = b[5+int(b[3])<<8+int(b[4]):] {
		if b[0] == alert {
			t.Error("a goodbye")
		}
	}
}

// recorder keeps what was read.
type recorder struct {
	net.Conn
	got []byte
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.got = append(r.got, p[:n]...)
	return n, err
}

// headed is a stream behind proxies.
func headed(t *testing.T, more, up string) *running {
	return serve(t, "[[stream]]\nLISTEN\nLOG\ntrusted_proxies = '127.0.0.1'\nproxy_protocol = true\n"+
		more+
		"[[stream.route]]\naddress = '"+up+"'\nproxy_protocol = 'v1'\n")
}

// TestProxyHeader: the client that a header names is in the log and in the header for the upstream,
// wherever the header is cut.
func TestProxyHeader(t *testing.T) {
	t.Parallel()
	s := headed(t, "", upstream(t, echo("")))
	one := "PROXY TCP4 192.0.2.7 198.51.100.1 1234 443\r\n"
	from, to := must.Get(net.ResolveTCPAddr("tcp", "192.0.2.7:1234"))(t),
		must.Get(net.ResolveTCPAddr("tcp", "198.51.100.1:443"))(t)
	two := string(proxyproto.Append2(nil, from.AddrPort(), to.AddrPort()))
	long := []byte(two)
	long[14], long[15] = 100, 12 // fields that nobody knows
	long = append(long, make([]byte, 100<<8)...)
	for _, text := range []string{one, two, string(long)} {
		step := 1 + len(text)/50
		for i := 0; i <= len(text); i += step {
			c := s.dial()
			says(t, c, text[:i])
			if i < len(text) && i%3 == 0 {
				s.settle()
			}
			says(t, c, text[i:]+"hello")
			wants(t, c, one+"hello")
			c.Close()
		}
		c := s.dial() // the header alone
		says(t, c, text)
		wants(t, c, one)
		c.Close()
	}
	if line := s.log(1)[0]; !strings.HasPrefix(line, "192.0.2.7 ") {
		t.Error(line)
	}
	for _, text := range []string{one, two} {
		for i := range text { // and leaves
			c := s.dial()
			says(t, c, text[:i])
			c.Close()
		}
	}
	wait.Until(t, "the ends", func() bool { return s.counts().Open == 0 })
}

// TestNoProxyHeader: other peers, and what is no header, are closed; the limit is for the client
// that the header names.
func TestNoProxyHeader(t *testing.T) {
	t.Parallel()
	s := headed(t, "max_connections_per_address = 1\n", upstream(t, echo("")))
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}
	c := must.Get(d.Dial("tcp", s.at))(t)
	defer c.Close()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a stranger got %d, %v", n, err)
	}
	c = s.dial()
	says(t, c, "GET / HTTP/1.1\r\n")
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("without a header: %d, %v", n, err)
	}
	header := func(n int) string {
		return fmt.Sprintf("PROXY TCP4 192.0.2.%d 198.51.100.1 1234 443\r\n", n)
	}
	for i, want := range []bool{true, true, false} {
		c := s.dial()
		says(t, c, header(i&1))
		if n, _ := c.Read(make([]byte, 1)); (n == 1) != want {
			t.Errorf("connection %d of two clients", i)
		}
	}
}

// TestHeaderAheadOfTLS: an upstream with tls:// gets the header before the handshake.
func TestHeaderAheadOfTLS(t *testing.T) {
	t.Parallel()
	a := certs.New(t)
	config := a.Config("up.example")
	got := make(chan string, 1)
	s := serve(t, "[[stream]]\nLISTEN\n[[stream.route]]\nproxy_protocol = 'v2'\naddress = 'tls://"+
		upstream(t, func(c *net.TCPConn) {
			head := make([]byte, 28)
			_, _ = io.ReadFull(c, head)
			h, size, err := proxyproto.Parse(head)
			got <- fmt.Sprint(h.Source, size, err)
			s := tls.Server(c, config)
			_, _ = io.WriteString(s, "hello")
			_ = s.CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		})+"'\ntls = { insecure = true }\n")
	c := s.dial()
	wantsEnd(t, c, "hello")
	if text, want := <-got, fmt.Sprint(c.LocalAddr(), 28, nil); text != want {
		t.Errorf("%s, want %s", text, want)
	}
}
