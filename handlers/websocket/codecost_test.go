package websocket

import (
	"fmt"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
)

// endless is a link on which the same frame comes again and again, and what is written is lost.
type endless struct {
	conn.HijackedConn
	frame []byte
}

func (l *endless) Unread() bool                     { return true }
func (l *endless) Read(p []byte) (int, error)       { return copy(p, l.frame), nil }
func (l *endless) TryWrite(p []byte) (int, error)   { return len(p), nil }
func (l *endless) Write(p []byte) (int, error)      { return len(p), nil }
func (l *endless) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkPath is what an echo takes of this package alone: without a system call, and without the
// loop.
func BenchmarkPath(b *testing.B) {
	for _, size := range []int{16, 125, 1000, 3000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			key := [4]byte{1, 2, 3, 4}
			p := make([]byte, size)
			mask(key, 0, p)
			frame := append(appendMasked(nil, finBit|opBinary, size, key), p...)
			loops.Run(b, func(t *loop.Thread) {
				c := &Conn{activeState: &activeState{link: &endless{frame: frame}}, thread: t,
					set: new(Upgrader)}
				b.ReportAllocs()
				for b.Loop() {
					kind, p, err := c.ReadMessage()
					if err == nil {
						err = c.WriteMessage(kind, p)
					}
					if err != nil || len(p) != size {
						b.Error(len(p), err)
						return
					}
				}
			})
		})
	}
}
