package websocket_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/leaktest"
	"github.com/lwango/lwango/loop"
)

func TestMain(m *testing.M) {
	leaktest.Parallel(6)
	leaktest.Main(m)
}

// mode is one way of running the same server.
type mode struct {
	name    string
	handoff coro.Handoff
	tls     bool
	unix    bool
}

var (
	plain    = mode{"channel", coro.Channel, false, false}
	direct   = mode{"direct", coro.Direct, false, false}
	overTLS  = mode{"tls", coro.Direct, true, false}
	overUNIX = mode{"unix", coro.Direct, false, true}
)

// run gives each mode the same test.
func run(t *testing.T, f func(t *testing.T, m mode)) {
	for _, m := range []mode{plain, direct, overTLS} {
		t.Run(m.name, func(t *testing.T) { f(t, m) })
	}
}

// site is a server under test.
type site struct {
	t       testing.TB
	m       mode
	network string
	addr    string
	server  *conn.Server
	loop    *loop.Loop
	once    sync.Once
	done    chan error
}

func start(t testing.TB, m mode, h conn.Handler) *site {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	l, err := loop.New(loop.Options{Handoff: m.handoff, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	network, address := "tcp", "127.0.0.1:0"
	if m.unix {
		network, address = "unix", filepath.Join(t.TempDir(), "s")
	}
	fd, err := loop.Listen(network, address, false)
	if err != nil {
		t.Fatal(err)
	}
	if !m.unix {
		address = loop.LocalAddr(fd).String()
	}
	s := &site{t: t, m: m, network: network, addr: address, loop: l, done: make(chan error, 1)}
	s.server = conn.NewServer(conn.Config{Handler: h, Logger: log})
	ln := conn.Listener{FD: fd}
	if m.tls {
		ln.TLS = serverTLS()
	}
	if _, err := s.server.Serve(l, ln); err != nil {
		t.Fatal(err)
	}
	go func() { s.done <- l.Run() }()
	t.Cleanup(func() { s.stop(time.Second) })
	return s
}

// stop stops the loop and waits for it.
func (s *site) stop(grace time.Duration) {
	s.once.Do(func() {
		s.loop.Stop(grace)
		if err := <-s.done; err != nil {
			s.t.Error(err)
		}
		if n := s.server.Active(); n != 0 {
			s.t.Errorf("%d connections counted after the stop", n)
		}
	})
}

// on calls f on the loop and waits for it.
func (s *site) on(f func(l *loop.Loop)) {
	s.t.Helper()
	done := make(chan struct{})
	if err := s.loop.Post(func() { f(s.loop); close(done) }); err != nil {
		s.t.Fatal(err)
	}
	<-done
}

// dial connects.
func (s *site) dial() net.Conn {
	s.t.Helper()
	c, err := net.Dial(s.network, s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.m.tls {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	s.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c
}

const handshake = "GET / HTTP/1.1\r\nHost: example.org\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"

// client is a client that sends what it is told to.
type client struct {
	net.Conn
	t  testing.TB
	br *bufio.Reader
}

// upgrade connects with a handshake, to which further fields are added.
func (s *site) upgrade(fields ...string) *client {
	s.t.Helper()
	c := &client{Conn: s.dial(), t: s.t}
	c.send(handshake + strings.Join(fields, "") + "\r\n")
	c.answered()
	return c
}

// answered reads the answer to the handshake.
func (c *client) answered() {
	c.t.Helper()
	c.br = bufio.NewReader(c.Conn)
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		c.t.Fatal(resp.Status)
	}
}

// reset has Close of the connection reset it.
func (c *client) reset() {
	nc := c.Conn
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	_ = nc.(*net.TCPConn).SetLinger(0)
}

func (c *client) send(raw string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, raw); err != nil {
		c.t.Fatal(err)
	}
}

// frame is a frame of a client, masked.
func frame(first byte, payload string) string {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = append(b, 0x80|126, byte(n>>8), byte(n))
	default:
		b = append(b, 0x80|127, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	key := [4]byte{0x12, 0x34, 0x56, 0x78}
	b = append(b, key[:]...)
	for i := range len(payload) {
		b = append(b, payload[i]^key[i&3])
	}
	return string(b)
}

// received is a frame of the server.
type received struct {
	first   byte
	payload string
}

// read reads one frame.
func (c *client) read() (f received, err error) {
	var b [8]byte
	if _, err = io.ReadFull(c.br, b[:2]); err != nil {
		return f, err
	}
	f.first = b[0]
	n := uint64(b[1])
	switch n {
	case 126:
		_, err = io.ReadFull(c.br, b[6:])
		n = uint64(binary.BigEndian.Uint16(b[6:]))
	case 127:
		_, err = io.ReadFull(c.br, b[:])
		n = binary.BigEndian.Uint64(b[:])
	}
	if err != nil {
		return f, err
	}
	p := make([]byte, n)
	_, err = io.ReadFull(c.br, p)
	f.payload = string(p)
	return f, err
}

// echo sends messages back.
func echo(u *websocket.Upgrader) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		c, err := u.Upgrade(req, resp)
		if err != nil {
			return websocket.Status(err)
		}
		for {
			if _, err := c.AwaitAny(-1, c); err != nil {
				return 0
			}
			kind, p, err := c.ReadMessage()
			if err != nil {
				return 0
			}
			if c.WriteMessage(kind, p) != nil {
				return 0
			}
		}
	}
}

// serverTLS is a configuration with a certificate made for this run.
var serverTLS = sync.OnceValue(func() *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
})

// settle waits until the loop has seen to what was sent before.
func (s *site) settle() {
	s.t.Helper()
	for range 3 {
		s.on(func(*loop.Loop) {})
	}
}

// settled waits until cond, called on the loop, is true.
func (s *site) settled(what string, cond func(l *loop.Loop) bool) {
	s.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		ok := false
		s.on(func(l *loop.Loop) { ok = cond(l) })
		if ok {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s: not within 10 s", what)
		}
	}
}

// idle waits until no connection is left.
func (s *site) idle() {
	s.t.Helper()
	s.settled("no connection left", func(*loop.Loop) bool { return s.server.Active() == 0 })
}
