package websocket_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	gorilla "github.com/gorilla/websocket"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/must"
)

var writeSizes = []int{0, 1, 125, 126, 4082, 4083, 65535, 65536, 200000}

// TestWrittenSizes: messages of all sizes arrive whole at connections with compression and without,
// and so do those for many.
func TestWrittenSizes(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		var prepared []*websocket.PreparedMessage
		for _, size := range writeSizes {
			text := []byte(strings.Repeat("m", size))
			p := must.Get(websocket.Prepare(websocket.Text, text))(t)
			clear(text) // it was copied
			prepared = append(prepared, p)
		}
		ended := make(chan error, 1)
		u := websocket.Upgrader{Compression: true}
		s := start(t, m, having(&u, func(c *websocket.Conn) {
			var err error
			for _, p := range prepared {
				if err = errors.Join(c.WritePrepared(p),
					c.WriteMessage(websocket.Binary, []byte{1})); err != nil {
					ended <- err
					return
				}
			}
			for _, size := range writeSizes {
				if err = c.WriteMessage(websocket.Text, bytes.Repeat([]byte("m"), size)); err == nil {
					err = c.WriteMessage(websocket.Binary, []byte{1})
				}
				if err != nil {
					ended <- err
					return
				}
			}
			_ = c.Close(4000, "that was all")
			ended <- c.WritePrepared(prepared[0])
		}))
		for _, compress := range []bool{false, true} {
			c := dialGorilla(s, compress)
			for range 2 {
				for _, size := range writeSizes {
					if k, got, err := c.ReadMessage(); k != gorilla.TextMessage ||
						string(got) != strings.Repeat("m", size) || err != nil {
						t.Fatalf("message of %d bytes, compressed: %v: %d bytes, %v", size,
							compress, len(got), err)
					}
					if k, got, err := c.ReadMessage(); k != gorilla.BinaryMessage ||
						string(got) != "\x01" || err != nil {
						t.Fatalf("after it: %q, %v", got, err)
					}
				}
			}
			// nothing comes behind a close
			if _, _, err := c.ReadMessage(); !gorilla.IsCloseError(err, 4000) {
				t.Errorf("the end: %v", err)
			}
			if err := <-ended; !isCode(err, 4000) {
				t.Errorf("writing after the close: %v", err)
			}
		}
	})
}

func TestPrepareRefusesOtherKinds(t *testing.T) {
	for _, kind := range []int{0, 3, gorilla.CloseMessage, gorilla.PingMessage, -1} {
		if p, err := websocket.Prepare(kind, nil); p != nil || err == nil {
			t.Errorf("kind %d: %v, %v", kind, p, err)
		}
	}
}
