package stream_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/keyupdate"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// TestTLSConnBothWays: at both ends one thread reads while another one writes, from the handshake
// on, which both begin.
func TestTLSConnBothWays(t *testing.T) {
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		onLoop(t, func(t *testing.T, l *loop.Loop) {
			a, b := pair(t, l, "tcp")
			data := chacha(3 << 20)
			for _, c := range []*stream.TLSConn{
				stream.TLSServer(a, serverTLS()),
				stream.TLSClient(b, &tls.Config{InsecureSkipVerify: true, MaxVersion: version}),
			} {
				l.Go(func(th *loop.Thread) {
					must.Do(t, c.SetDeadline(time.Now().Add(wait.Patience)))
					th.Go(func(*loop.Thread) error {
						n, err := c.Write(data)
						must.Do(t, err)
						if n != len(data) {
							t.Errorf("%d bytes are written", n)
						}
						must.Do(t, c.CloseWrite())
						return nil
					})
					if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, data) {
						t.Errorf("read %d bytes, %v", len(got), err)
					}
					must.Do(t, th.Join())
					if v := c.ConnectionState().Version; v != version {
						t.Errorf("version %x", v)
					}
					must.Do(t, c.Close())
				})
			}
		})
	}
}

// stalled is a TLSConn whose writer waits, since the peer does not read, and whose reader waits for
// the peer.
type stalled struct {
	*loops.Loops
	peer    net.Conn // below the peer's TLS
	tls     *tls.Conn
	secrets strings.Builder // the peer's, by the key log

	conn        *stream.TLSConn
	read, wrote chan error // what the calls have returned
}

func stall(t *testing.T, m mode, data []byte) *stalled {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer ln.Close()
	s := &stalled{read: make(chan error, 1), wrote: make(chan error, 1)}
	s.Loops = loops.Start(t, m, quiet, func(l *loop.Loop) {
		l.Go(func(th *loop.Thread) { _, _ = th.AwaitAny(-1, l.Stopped()) }) // keeps it running
	})
	s.Go(0, func(th *loop.Thread) {
		c, err := stream.Dial(th, wait.Patience, "tcp", ln.Addr().String())
		must.Do(t, err)
		s.conn = stream.TLSClient(c, &tls.Config{InsecureSkipVerify: true})
		th.Go(func(*loop.Thread) error {
			_, err := s.conn.Write(data)
			s.wrote <- err
			return nil
		})
		_, err = s.conn.Read(make([]byte, 1))
		s.read <- err
	})
	s.peer, err = ln.Accept()
	must.Do(t, err)
	t.Cleanup(func() { s.peer.Close() })
	must.Do(t, s.peer.SetDeadline(time.Now().Add(wait.Patience)))
	must.Do(t, s.peer.(*net.TCPConn).SetReadBuffer(64<<10))
	config := serverTLS().Clone()
	// no record before the test's
	config.KeyLogWriter, config.SessionTicketsDisabled = &s.secrets, true
	s.tls = tls.Server(s.peer, config)
	must.Do(t, s.tls.Handshake())
	s.Settle()
	select {
	case err := <-s.wrote:
		t.Fatalf("the write does not wait: %v", err)
	default:
	}
	return s
}

// TestTLSConnDamagedRecord: a record that is damaged ends the read, though a write waits, and the
// loop goes on.
func TestTLSConnDamagedRecord(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		if m.Loops > 1 || m.TLS {
			return
		}
		s := stall(t, m, make([]byte, 8<<20))
		_, err := s.peer.Write(append([]byte{23, 3, 3, 0, 24}, make([]byte, 24)...))
		must.Do(t, err)
		if err := <-s.read; !strings.Contains(err.Error(), "bad record MAC") {
			t.Errorf("read: %v", err)
		}
		s.On(func(*loop.Loop) { must.Do(t, s.conn.Close()) })
		if <-s.wrote == nil {
			t.Error("the write has had no error")
		}
	})
}

// TestTLSConnKeyUpdate: the peer asks for new keys while a write waits, and gets them, at the right
// place of what it reads then.
func TestTLSConnKeyUpdate(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		if m.Loops > 1 || m.TLS {
			return
		}
		data := chacha(8 << 20)
		s := stall(t, m, data)
		if s.tls.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
			t.Skip("the processor has no AES")
		}
		_, err := s.peer.Write(keyupdate.First(t, s.secrets.String(), "SERVER", true))
		must.Do(t, err)
		s.Settle() // the reader has answered, or the loop is blocked
		got := make([]byte, len(data))
		if n, err := io.ReadFull(s.tls, got); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the peer has read %d bytes, %v", n, err)
		}
		must.Do(t, <-s.wrote)
		s.On(func(*loop.Loop) { must.Do(t, s.conn.SetReadDeadline(time.Unix(1, 0))) })
		if err := <-s.read; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		s.On(func(*loop.Loop) { must.Do(t, s.conn.Close()) })
		if _, err := s.tls.Read(got); err != io.EOF && !invariants.Enabled { // which refuse writes
			t.Errorf("no close_notify with the new keys: %v", err)
		}
	})
}

// TestTLSConnOneReader: a second reader is refused, and does not block the loop.
func TestTLSConnOneReader(t *testing.T) {
	t.Parallel()
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		a, b := pair(t, l, "tcp")
		tried := 0
		for _, c := range []*stream.TLSConn{
			stream.TLSServer(a, serverTLS()),
			stream.TLSClient(b, &tls.Config{InsecureSkipVerify: true,
				Renegotiation: tls.RenegotiateFreelyAsClient}),
		} {
			l.Go(func(th *loop.Thread) {
				must.Do(t, c.Handshake())
				th.Go(func(*loop.Thread) error {
					_, err := c.Read(make([]byte, 1))
					if err == nil || errors.Is(err, loop.ErrAwaited) {
						t.Errorf("first: %v", err)
					}
					return nil
				})
				th.Yield()
				_, err := c.Read(make([]byte, 1))
				wants(t, "second", err, loop.ErrAwaited, "read")
				for tried++; tried < 2; { // the end of one is read by the other
					must.Do(t, th.Sleep(time.Millisecond))
				}
				must.Do(t, c.Close())
				must.Do(t, th.Join())
			})
		}
	})
}
