package conn_test

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestFailedHandshakes: they are counted, and logged with the reason, once a minute at most. A
// client that sends nothing, or comes to a request, is not among them.
func TestFailedHandshakes(t *testing.T) {
	t.Parallel()
	s := start(t, direct, conn.Config{Handler: hello})
	config := modes.ServerTLS().Clone()
	config.MinVersion = tls.VersionTLS13
	addr := s.AddTLS(config)
	old := func(c net.Conn) {
		err := tls.Client(c,
			&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}).Handshake()
		if err == nil {
			t.Error("a version that is not allowed")
		}
	}
	for i, client := range []struct {
		does   func(c net.Conn)
		failed int64
	}{
		{func(net.Conn) {}, 0},
		{func(c net.Conn) {
			over := overTLSTo(c)
			send(t, over, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			_, _ = over.Read(make([]byte, 1))
		}, 0},
		{old, 1},
		{old, 2},
		{func(c net.Conn) { send(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") }, 3},
		{func(c net.Conn) { send(t, c, "\x16\x03\x01\x02") }, 4}, // and leaves
	} {
		c := dial(t, addr)
		client.does(c)
		c.Close()
		var tally conn.Stats
		wait.Until(t, "its connection has ended", func() (ended bool) {
			s.On(func(l *loop.Loop) {
				tally = s.Server.Stats(l)
				ended = tally.Accepted == int64(i+1) && s.Active() == 0
			})
			return ended
		})
		if tally.FailedHandshakes != client.failed {
			t.Errorf("client %d: %d handshakes failed, want %d", i, tally.FailedHandshakes, client.failed)
		}
	}
	log := s.Log.String()
	if strings.Count(log, "tls handshakes failed") != 1 || !strings.Contains(log, " failed=1 ") ||
		!strings.Contains(log, "level=INFO") ||
		!strings.Contains(log, `error="tls: client offered only unsupported versions`) {
		t.Errorf("log: %s", log)
	}
}
