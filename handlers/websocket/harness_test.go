package websocket_test

import (
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

func TestMain(m *testing.M) {
	leak.Parallel(6)
	// A tenth while a server stops: a client of a busy machine may be late with its answer.
	websocket.SetCloseWait(10 * wait.Patience)
	websocket.SetLastWords(3 * time.Second) // a busy machine may stand still for long
	leak.Main(m)
}

type (
	mode = modes.Mode
	site = server.Server
)

var plain, direct, overTLS, overUNIX = modes.Plain, modes.Direct, modes.OverTLS, modes.OverUNIX

// run gives each mode the same test.
func run(t *testing.T, f func(t *testing.T, m mode)) {
	modes.Run(t, f, plain, direct, overTLS, modes.HTTP2)
}

func start(t testing.TB, m mode, h conn.Handler) *site {
	t.Helper()
	return server.Start(t, m, conn.Config{Handler: styled(m, h)})
}

const handshake = "GET / HTTP/1.1\r\nHost: example.org\r\nUpgrade: websocket\r\nConnection: " +
	"Upgrade\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"

// client is a client that sends what it is told to.
type client struct{ *server.Client }

// upgrade connects with a handshake, to which further fields are added.
func upgrade(s *site, fields ...string) *client {
	s.T.Helper()
	c := &client{s.Dial()}
	c.Send(handshake + strings.Join(fields, "") + "\r\n")
	c.answered()
	return c
}

// answered reads the answer to the handshake.
func (c *client) answered() {
	c.T.Helper()
	c.head()
}

// head reads the answer to the handshake and returns its fields.
func (c *client) head() http.Header {
	c.T.Helper()
	resp := must.Get(http.ReadResponse(c.R, nil))(c.T)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		c.T.Fatal(resp.Status)
	}
	return resp.Header
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
	if _, err = io.ReadFull(c.R, b[:2]); err != nil {
		return f, err
	}
	f.first = b[0]
	n := uint64(b[1])
	switch n {
	case 126:
		_, err = io.ReadFull(c.R, b[6:])
		n = uint64(binary.BigEndian.Uint16(b[6:]))
	case 127:
		_, err = io.ReadFull(c.R, b[:])
		n = binary.BigEndian.Uint64(b[:])
	}
	if err != nil {
		return f, err
	}
	p := make([]byte, n)
	_, err = io.ReadFull(c.R, p)
	f.payload = string(p)
	return f, err
}
