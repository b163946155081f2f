package websocket_test

import (
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// TestCostOfAMessage: in the steady state a message takes no epoll_ctl, one turn of the loop at
// most, and no allocation.
func TestCostOfAMessage(t *testing.T) {
	ci.Without(t, invariants.Enabled, "short reads are forced")
	for _, m := range []mode{plain, direct, serving(direct)} {
		t.Run(m.Name, func(t *testing.T) {
			s := start(t, m, echo(new(websocket.Upgrader)))
			c := upgrade(s)
			message := []byte(frame(0x82, string(make([]byte, 125))))
			answer := make([]byte, 127)
			one := func() {
				if _, err := c.Write(message); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c.R, answer); err != nil {
					t.Fatal(err)
				}
			}
			one()
			var before, after loop.Stats
			const many = 200
			s.On(func(l *loop.Loop) { before = l.Stats() })
			for range many {
				one()
			}
			s.On(func(l *loop.Loop) { after = l.Stats() })
			if n := after.Ctls - before.Ctls; n != 0 {
				t.Errorf("%d calls of epoll_ctl", n)
			}
			// the turn's budget takes a few
			if n := after.Resumes - before.Resumes; n > many+many/20 {
				t.Errorf("thread resumed %d times for %d messages", n, many)
			}
			if race.Enabled {
				return // sync.Pool drops things then
			}
			if n := testing.AllocsPerRun(many, one); n > 0 {
				t.Errorf("%v allocations per message", n)
			}
		})
	}
}

// TestCostOverHTTP2: nor does a message over HTTP/2 allocate anything.
func TestCostOverHTTP2(t *testing.T) {
	ci.Without(t, invariants.Enabled || race.Enabled, "reads are short, or sync.Pool drops things")
	modes.Run(t, func(t *testing.T, m mode) {
		s := start(t, m, echo(new(websocket.Upgrader)))
		const streams = 4
		one := connect2(t, must.Dial(t, "tcp", s.Addr), streams, frame(0x82, string(make([]byte, 125))))
		one()
		var before, after loop.Stats
		const many = 200
		s.On(func(l *loop.Loop) { before = l.Stats() })
		for range many {
			one()
		}
		s.On(func(l *loop.Loop) { after = l.Stats() })
		if n := after.Ctls - before.Ctls; n != 0 {
			t.Errorf("%d calls of epoll_ctl", n)
		}
		if n := testing.AllocsPerRun(many, one); n > 0 {
			t.Errorf("%v allocations for %d messages", n, streams)
		}
	}, modes.HTTP2, serving(modes.HTTP2))
}

// TestCostOfTheLongestMessage: what a message of the limit's size is read into serves the next one,
// too.
func TestCostOfTheLongestMessage(t *testing.T) {
	ci.Without(t, invariants.Enabled || race.Enabled, "reads are short, or sync.Pool drops things")
	modes.Run(t, costOfTheLongestMessage, plain, serving(direct))
}

func costOfTheLongestMessage(t *testing.T, m mode) {
	s := start(t, m, echo(new(websocket.Upgrader)))
	c := upgrade(s)
	message := []byte(frame(0x82, strings.Repeat("x", 64<<10)))
	answer := make([]byte, 10+64<<10)
	one := func() {
		if _, err := c.Write(message); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c.R, answer); err != nil {
			t.Fatal(err)
		}
	}
	one()
	const many = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range many {
		one()
	}
	runtime.ReadMemStats(&after)
	// the collector empties pools now and then
	if n := (after.TotalAlloc - before.TotalAlloc) / many; n > 16<<10 {
		t.Errorf("%d bytes are allocated for each message", n)
	}
}

// TestCostOfARoom: a message to a room allocates what its members share, and nothing for each.
func TestCostOfARoom(t *testing.T) {
	ci.Without(t, invariants.Enabled || race.Enabled, "sends are short, or sync.Pool drops things")
	const members, many, most = 20, 200, 520
	room := new(pubsub.Hub).Topic("room")
	u := new(websocket.Upgrader)
	s := start(t, direct, func(req *conn.Request, resp *conn.Response) int {
		return u.Serve(req, resp, &relayed{room, pubsub.Options{}})
	})
	var clients [members]*client
	for i := range clients {
		clients[i] = upgrade(s)
	}
	s.Settle()
	text, b := make([]byte, 125), make([]byte, 127)
	say := func(n int) (allocated uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			room.Publish(text)
			for _, c := range clients {
				must.Get(io.ReadFull(c.R, b))(t)
			}
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty pools
	say(many)
	n := say(many) / many
	if n > most {
		t.Errorf("%d bytes are allocated for a message, want %d at most", n, most)
	}
}

func BenchmarkEcho(b *testing.B) {
	s := start(b, plain, echo(new(websocket.Upgrader)))
	c := upgrade(s)
	message := []byte(frame(0x82, string(make([]byte, 125))))
	answer := make([]byte, 127)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = c.Write(message)
		if _, err := io.ReadFull(c.R, answer); err != nil {
			b.Fatal(err)
		}
	}
}

// TestCostOfCompression: a message that is inflated and compressed allocates nothing either, once
// the connection has its windows.
func TestCostOfCompression(t *testing.T) {
	ci.Without(t, invariants.Enabled || race.Enabled, "reads are short, or sync.Pool drops things")
	for i, takeover := range []bool{false, true, false, true} {
		m := []mode{direct, serving(direct)}[i/2]
		s := start(t, m, echo(&websocket.Upgrader{Compression: true, Takeover: takeover}))
		c := &client{s.Dial()}
		c.Send(handshake + "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
		c.agreed()
		message, b := []byte(frame(0xc1, packed(quotes(1)))), make([]byte, 4096)
		one := func() {
			if _, err := c.Write(message); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c.R, b[:2]); err != nil {
				t.Fatal(err)
			}
			n := int(b[1])
			if n == 126 {
				_, _ = io.ReadFull(c.R, b[:2])
				n = int(b[0])<<8 | int(b[1])
			}
			if _, err := io.ReadFull(c.R, b[:n]); err != nil {
				t.Fatal(err)
			}
		}
		for range 50 {
			one()
		}
		if n := testing.AllocsPerRun(200, one); n > 0 {
			t.Errorf("%s, takeover %v: %v allocations per message", m.Name, takeover, n)
		}
	}
}
