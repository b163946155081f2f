package websocket_test

import (
	"encoding/binary"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
)

// TestReadLimitByDefault: a client can make the server hold little by default.
func TestReadLimitByDefault(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		s := start(t, m, echo(new(websocket.Upgrader)))
		check(s, row{"as long as may be", frame(0x82, strings.Repeat("x", 64<<10)) + bye,
			[]received{bin(strings.Repeat("x", 64<<10))}, 1000},
			"", frame(0x82, strings.Repeat("x", 64<<10))+bye)
		check(s, row{"one byte more", long(0x82, 127, 64<<10+1, ""), nil, 1009}, "",
			long(0x82, 127, 64<<10+1, ""))
	})
}

// TestNegativeLimits: a negative limit is none. There is no storm of pings, no message is refused,
// and no peer is given up.
func TestNegativeLimits(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, m mode) {
		s := start(t, m, echo(&websocket.Upgrader{
			Compression: true, ReadLimit: -1, HandshakeTimeout: -1, MessageTimeout: -1,
			WriteTimeout: -1, PingInterval: -1,
		}))
		c := upgrade(s, offered)
		s.Settle() // with HTTP/2 the client has answered SETTINGS
		var before, after loop.Stats
		s.On(func(l *loop.Loop) { before = l.Stats() })
		s.Settle()
		s.On(func(l *loop.Loop) { after = l.Stats() })
		if n := after.Resumes - before.Resumes; n > 0 {
			t.Errorf("an idle connection was resumed %d times", n)
		}
		large := strings.Repeat("0123456789abcdef", 3<<20/16)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = io.WriteString(c, frame(0x02, large[:1<<20])) // in three parts, each waited for
			s.Settle()
			_, _ = io.WriteString(c, frame(0x00, large[1<<20:2<<20]))
			s.Settle()
			_, _ = io.WriteString(c, frame(0x80, large[2<<20:])+frame(0xc1, packed(large)))
		}()
		c.expect(bin(large)) // and no ping before it
		c.expect(text(large))
		<-sent
		c.Send(bye)
		c.closed(1000)
	})
}

// TestPingsWithoutLimit: a client is sent pings, and is not given up without an IdleTimeout.
func TestPingsWithoutLimit(t *testing.T) {
	bothAtOnce(t, func(t *testing.T, m mode) {
		s := start(t, m, echo(&websocket.Upgrader{PingInterval: 10 * time.Millisecond,
			IdleTimeout: -1}))
		c := upgrade(s)
		c.expect(received{0x89, ""})
		time.Sleep(100 * time.Millisecond) // the case is the silence
		c.Send(frame(0x81, "m"))
		c.expect(text("m"), received{0x89, ""})
		c.Send(bye)
		c.closed(1000)
	})
}

// TestIdleWithoutPings: a silent client is given up all the same.
func TestIdleWithoutPings(t *testing.T) {
	bothAtOnce(t, func(t *testing.T, m mode) {
		for _, u := range []*websocket.Upgrader{
			{PingInterval: -1, IdleTimeout: 50 * time.Millisecond},
			{PingInterval: 50 * time.Millisecond, IdleTimeout: 50 * time.Millisecond},
		} {
			ends := make(chan error, 1)
			s := start(t, m, ending(u, ends))
			c := upgrade(s)
			if got := code(t, ends); got != websocket.Abnormal {
				t.Errorf("ended with %d", got)
			}
			if f, err := c.read(); err == nil {
				t.Errorf("%+v: got %q", u, f)
			}
			s.Idle()
		}
	})
}

// TestSteadyButSlowReader: a client that takes longer for what it was sent than the silence that is
// borne, and answers pings only as it comes to them, behind megabytes in both kernels, is not cut
// off; nor because the kernel has room for more only when a third of these are gone. One that stops
// reading is. The limits are longer than the steps in which two kernels on one machine move data,
// and their pauses of 200 ms.
func TestSteadyButSlowReader(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		m     mode
		all   int // messages to the client that reads
		held  int // to the one that stops: there is room for all that it leaves
		read  int // by that one
		piece int // bytes that are read at once
	}{
		{plain, 80, 16, 4, 9 << 10}, // 5 MiB at some 0.8 MiB/s
		{overTLS, 80, 16, 4, 9 << 10},
		{modes.HTTP2, 80, 1, 0, 9 << 10}, // its window is smaller than a message: the write ends
		{overUNIX, 32, 3, 2, 8 << 10},
		{serving(direct), 80, 16, 4, 9 << 10},
		{serving(modes.HTTP2), 80, 1, 0, 9 << 10},
	} {
		t.Run(row.m.Name, func(t *testing.T) {
			t.Parallel()
			const size = 64 << 10
			u := &websocket.Upgrader{PingInterval: 100 * time.Millisecond,
				IdleTimeout: 1500 * time.Millisecond, WriteTimeout: time.Second}
			ends := make(chan error, 1)
			s := start(t, row.m, choosing(u, func(req *conn.Request) talk {
				count := row.all
				if req.Path() == "/stops" {
					count = row.held
				}
				message := make([]byte, size)
				if isServed(req) {
					var next func(c *websocket.Conn)
					next = func(c *websocket.Conn) {
						if _ = c.WriteMessage(websocket.Binary, message); count > 1 {
							count--
							c.After(0, next)
						}
					}
					return talk{open: func(c *websocket.Conn) { c.After(0, next) }, message: back, ends: ends}
				}
				now := req.After(0)
				return talk{open: func(c *websocket.Conn) {
					var err error
					for n := 0; err == nil; {
						if n < count {
							if _, err = c.AwaitAny(-1, now); err == nil {
								n, err = n+1, c.WriteMessage(websocket.Binary, message)
								now.Reset(0)
							}
						} else if _, err = c.AwaitAny(-1, c); err == nil {
							_, _, err = c.ReadMessage()
						}
					}
					ends <- err
				}}
			}))
			for _, stops := range []bool{false, true} {
				c := &client{s.Dial()}
				count := row.all
				if stops {
					count = row.read
					c.Send(strings.Replace(handshake, "/", "/stops", 1) + "\r\n")
				} else {
					c.Send(handshake + "\r\n")
				}
				c.answered()
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				pace := &slowly{c: c, piece: row.piece, every: 10 * time.Millisecond}
				got, pings := 0, 0
				began := time.Now()
				for got < count {
					var b [10]byte
					pace.read(b[:2])
					length := int(b[1])
					switch length {
					case 126:
						pace.read(b[:2])
						length = int(binary.BigEndian.Uint16(b[:]))
					case 127:
						pace.read(b[:8])
						length = int(binary.BigEndian.Uint64(b[:]))
					}
					switch b0 := pace.first; {
					case b0 == 0x82 && length == size:
						got++
					case b0 == 0x89 && length == 0:
						pings++
						// that it was cut off the next read tells
						_, _ = io.WriteString(c, frame(0x8a, ""))
					default:
						t.Fatalf("frame %x of %d bytes", b0, length)
					}
					pace.read(make([]byte, length))
				}
				if stops {
					if got := code(t, ends); got != websocket.Abnormal {
						t.Errorf("a client that does not read: ended with %d", got)
					}
					continue
				}
				t.Logf("%v, %d pings", time.Since(began), pings)
				_, _ = io.WriteString(c, bye)
				if got := code(t, ends); got != 1000 {
					pace.starved()
					t.Errorf("ended with %d", got)
				}
				if pings == 0 {
					pace.starved()
					t.Error("no pings")
				}
			}
			s.Idle()
		})
	}
}

// slowly reads so much at a time. If it was itself kept from keeping its pace, what comes of it
// says nothing.
type slowly struct {
	c     *client
	piece int
	every time.Duration

	left  int
	first byte          // of what was read last
	worst time.Duration // that it has slept
}

// starved skips the test if the machine was too busy for the client to keep its pace.
func (s *slowly) starved() {
	s.c.T.Helper()
	if s.worst > 5*s.every {
		s.c.T.Skipf("the machine is too busy: the client slept for %v instead of %v", s.worst,
			s.every)
	}
}

func (s *slowly) read(p []byte) {
	s.c.T.Helper()
	for i := 0; i < len(p); {
		if s.left == 0 {
			began := time.Now()
			time.Sleep(s.every) // the case is the pace
			s.worst = max(s.worst, time.Since(began))
			s.left = s.piece
		}
		n, err := s.c.R.Read(p[i:min(len(p), i+s.left)])
		if err != nil {
			s.starved()
			s.c.T.Fatalf("after %d of %d bytes: %v", i, len(p), err)
		}
		i += n
		s.left -= n
	}
	if len(p) == 2 {
		s.first = p[0]
	}
}

// TestTextFailsFast: text that cannot become UTF-8 is refused with the byte that says so, though
// the message goes on.
func TestTextFailsFast(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		ends := make(chan error, 1)
		s := start(t, m, ending(&websocket.Upgrader{Compression: true}, ends))
		// a frame of which more is to come
		part := func(first byte, payload string, length int) string {
			f := frame(first, payload+strings.Repeat("x", length-len(payload)))
			return f[:len(f)-length+len(payload)]
		}
		// A stored block, of which so much has come as the server reads at once: only the next
		// read could tell that this is all for now.
		filling := frame(0x41, "\x00\x00\x20\xff\xdf\xff"+strings.Repeat("x", 1<<13-1))
		filling = filling[:websocket.BufferSize]
		unfinished := packed("abc\xff0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
		for _, row := range []struct {
			why    string
			good   []string // to be waited for more of
			bad    string
			fields string
		}{
			{"within a frame", []string{part(0x81, "a", 100)}, frame(0x81, "a\xff")[7:], ""},
			{"at once", nil, part(0x81, "\xc0", 100), ""},
			{"in a fragment", nil, frame(0x01, "abc\xff"), ""},
			{"in a later fragment", []string{frame(0x01, "abc"), frame(0x00, "def")},
				frame(0x00, "g\x80"), ""},
			{"a rune across fragments, and another",
				[]string{frame(0x01, "a\xe2"), frame(0x00, "\x82"), frame(0x00, "\xac\xf0\x9f")},
				frame(0x00, "\x20"), ""},
			{"a surrogate, with its second byte", []string{frame(0x01, "\xed")},
				frame(0x00, "\xa0"), ""},
			{"beyond Unicode, with its second byte", []string{frame(0x01, "\xf4")},
				frame(0x00, "\x90"), ""},
			{"four bytes, the last one wrong",
				[]string{frame(0x01, "\xf0"), frame(0x00, "\x9f"), frame(0x00, "\x98")},
				frame(0x00, "a"), ""},
			{"compressed, in a fragment", nil, frame(0x41, packed("abc\xff")+"\x00\x00\xff\xff"),
				offered},
			{"compressed, the block not at its end", nil,
				frame(0x41, unfinished[:len(unfinished)-5]), offered},
			{"compressed, as much as one read takes", nil, filling, offered},
			{"compressed, in a later fragment",
				[]string{frame(0x41, packed("é")[:1]),
					frame(0x00, packed("é")[1:]+"\x00\x00\xff\xff")},
				frame(0x00, packed("\xff\xff0123456789")+"\x00\x00\xff\xff"), offered},
		} {
			if invariants.Enabled && row.fields != "" {
				// Where reads are shortened the server may have inflated the most of it already,
				// and does so again only when the input has doubled.
				continue
			}
			c := upgrade(s, row.fields)
			for _, p := range row.good {
				c.Send(p)
				s.Settle()
				select {
				case err := <-ends:
					t.Fatalf("%s: ended too soon: %v", row.why, err)
				default:
				}
			}
			c.Send(row.bad)
			c.closed(1007)
			if got := code(t, ends); got != 1007 {
				t.Errorf("%s: ended with %d", row.why, got)
			}
			c.Close()
		}
		s.Idle()
	})
}

// TestBombFailsFast: what inflates to more than may be is refused before its end has come, and so
// is what does not inflate.
func TestBombFailsFast(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		s := start(t, m, echo(&websocket.Upgrader{Compression: true}))
		c := upgrade(s, offered)
		c.Send(frame(0x41, packed(strings.Repeat("x", 200000))))
		c.closed(1009)
		c.Close()
		c = upgrade(s, offered)
		c.Send(frame(0x41, "\xff\xff\xff\xff"))
		c.closed(1007)
		c.Close()
		s.Idle()
	})
}

// TestWriteDeadline: a deadline that the program has set ends a write, however much the client
// takes until then.
func TestWriteDeadline(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, m mode) {
		t.Parallel()
		ends := make(chan error, 1)
		u := new(websocket.Upgrader)
		s := start(t, m, having(u, func(c *websocket.Conn) {
			var err error
			c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
			for err == nil {
				err = c.WriteMessage(websocket.Binary, make([]byte, 8<<20))
			}
			ends <- err
		}))
		for _, reads := range []bool{false, true} {
			c := upgrade(s)
			stop := make(chan struct{})
			var reading sync.WaitGroup
			if reads {
				reading.Go(func() {
					for p := make([]byte, 32<<10); ; {
						select {
						case <-stop:
							return
						case <-time.After(5 * time.Millisecond):
							_, _ = c.R.Read(p)
						}
					}
				})
			}
			if got := code(t, ends); got != websocket.Abnormal {
				t.Errorf("reads %v: ended with %d", reads, got)
			}
			close(stop)
			reading.Wait()
			c.Close()
		}
		s.Idle()
	})
}
