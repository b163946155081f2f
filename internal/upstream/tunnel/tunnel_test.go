package tunnel_test

import (
	"net"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/upstream/tunnel"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// bufferedConn is a Conn that sends by itself what it holds.
type bufferedConn struct {
	net.Conn
	l    *loop.Loop
	in   []byte
	held int
}

func (h *bufferedConn) Read(p []byte) (int, error) {
	if len(h.in) == 0 {
		return 0, stream.ErrWouldBlock
	}
	n := copy(p, h.in)
	h.in = h.in[n:]
	return n, nil
}

func (h *bufferedConn) Write(p []byte) (int, error) {
	h.held += len(p)
	return len(p), nil
}

func (h *bufferedConn) Loop() *loop.Loop                   { return h.l }
func (h *bufferedConn) CloseWrite() error                  { return nil }
func (h *bufferedConn) SetNoWait(bool)                     {}
func (h *bufferedConn) Unread() bool                       { return len(h.in) > 0 }
func (h *bufferedConn) ResetOnClose()                      {}
func (h *bufferedConn) Hold(bool)                          {}
func (h *bufferedConn) Held() int                          { return h.held }
func (h *bufferedConn) SendHeld() (left int, err error)    { return h.held, nil }
func (h *bufferedConn) SetWriteDeadline(t time.Time) error { return nil }

// TestBufferedConnMoves: bytes that a client takes slowly keep the tunnel from being idle, where
// the connection sends them by itself, and the last of them do, too.
func TestBufferedConnMoves(t *testing.T) {
	l := must.Get(loop.New(loop.Options{}))(t)
	defer l.Close()
	client, up := &bufferedConn{l: l}, &bufferedConn{l: l, in: make([]byte, 1000)}
	var j tunnel.Tunnel
	j.Client.Begin(client, client)
	j.Up.Begin(up, up)
	limits := &tunnel.Limits{Idle: time.Minute}
	now := time.Hour
	j.Start(now)
	move := func(after time.Duration) (left time.Duration) {
		now += after
		for again, why := j.Move(now, nil); again || why != tunnel.Open; again, why = j.Move(now, nil) {
			if why != tunnel.Open {
				t.Fatal(why)
			}
		}
		left, _ = j.Left(now, limits)
		return left
	}
	move(0)
	for client.held > 0 {
		client.held -= 250
		if left := move(40 * time.Second); left != time.Minute {
			t.Errorf("%d bytes are held, %v left", client.held, left)
		}
	}
	if left := move(40 * time.Second); left != 20*time.Second {
		t.Errorf("nothing has moved, %v left", left)
	}
}
