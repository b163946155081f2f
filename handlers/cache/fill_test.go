package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// gate is a handler's answer that comes in pieces, as the test says.
type gate struct {
	asked   atomic.Int32
	head    *loop.Promise[string] // "": go on
	rest    *loop.Promise[string] // "": all; "cut", "panic"
	control string
	length  string
}

func newGate(control string) *gate {
	return &gate{head: new(loop.Promise[string]), rest: new(loop.Promise[string]), control: control}
}

const half = 40 << 10

func (g *gate) serve(req *conn.Request, w *conn.Response) int {
	g.asked.Add(1)
	if how, err := g.head.Await(req.Thread, wait.Patience); err != nil || how != "" {
		w.Abort()
		return 0
	}
	w.Header().Set("Cache-Control", g.control)
	if g.length != "" {
		w.Header().Set("Content-Length", g.length)
	}
	w.Write([]byte(strings.Repeat("a", half)))
	w.Flush()
	switch how, err := g.rest.Await(req.Thread, wait.Patience); {
	case err != nil || how == "cut":
		w.Abort()
		return 0
	case how == "panic":
		panic("as the test wants it")
	}
	w.Write([]byte(strings.Repeat("b", half)))
	return 200
}

var whole = strings.Repeat("a", half) + strings.Repeat("b", half)

const ask = "GET /x HTTP/1.1\r\nHost: test.example\r\n\r\n"

// TestFilledOnce: of a thousand clients that miss together one asks the handler, and all read what
// has come while it comes.
func TestFilledOnce(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		g := newGate("max-age=100")
		s := start(t, m, cache.Settings{}, g.serve)
		clients := 100
		if m == modes.Direct && !race.Enabled {
			clients = 1000
		}
		var all sync.WaitGroup
		var came atomic.Int32
		for range clients {
			c := s.Dial()
			c.Send(ask)
			all.Go(func() {
				resp, err := http.ReadResponse(c.R, nil)
				if err != nil {
					t.Error(err)
					return
				}
				begun := make([]byte, half)
				_, err = io.ReadFull(resp.Body, begun)
				came.Add(1)
				rest, more := io.ReadAll(resp.Body)
				if text := string(begun) + string(rest); err != nil || more != nil || text != whole {
					t.Errorf("%d bytes, %v, %v", len(text), err, more)
				}
			})
		}
		g.head.Resolve("")
		wait.Until(t, "the first half for all", func() bool { return came.Load() == int32(clients) })
		g.rest.Resolve("")
		all.Wait()
		if n := g.asked.Load(); n != 1 {
			t.Errorf("%d requests to the handler", n)
		}
		if a, said := get(t, s, "/x"); a.Text != whole || g.asked.Load() != 1 {
			t.Errorf("afterwards: %d bytes, %.100s", len(a.Text), said)
		}
	}, modes.Direct, modes.Several, modes.OverTLS)
}

// TestFollowers: those that wait get all of the answer, or see that it is cut. What is cut, too
// long or too short is not kept.
func TestFollowers(t *testing.T) {
	for _, buffering := range []bool{false, true} {
		t.Run(fmt.Sprint("buffering: ", buffering), func(t *testing.T) { testFollowers(t, buffering) })
	}
}

func testFollowers(t *testing.T, buffering bool) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		for _, tt := range []struct {
			name, control, length, rest string
			asked                       int32 // times, for two clients
			again                       int32 // with one client more
			good                        bool
		}{
			{"whole", "max-age=100", "", "", 1, 1, true},
			{"declared", "max-age=100", fmt.Sprint(2 * half), "", 1, 1, true},
			{"cut", "max-age=100", "", "cut", 1, 2, false},
			{"cut-declared", "max-age=100", fmt.Sprint(2 * half), "cut", 1, 2, false},
			{"panic", "max-age=100", "", "panic", 1, 2, false},
			{"too-long", "max-age=100", fmt.Sprint(half + 1), "", 1, 2, false},
			{"too-short", "max-age=100", fmt.Sprint(2*half + 1), "", 1, 2, false},
			{"private", "private", "", "", 2, 3, true},
			{"private-cut", "private", "", "cut", 2, 3, false},
		} {
			g := newGate(tt.control)
			g.length = tt.length
			s := startAs(t, m, cache.Settings{}, g.serve, buffering)
			if tt.rest == "panic" {
				s.Panics.Expect()
			}
			first, second := s.Dial(), s.Dial()
			first.Send(ask)
			wait.Until(t, "the first request", func() bool { return g.asked.Load() == 1 })
			second.Send(ask)
			s.Settle()
			g.head.Resolve("")
			wait.Until(t, "the second one", func() bool { return g.asked.Load() == tt.asked })
			s.Settle()
			g.rest.Resolve(tt.rest)
			third := s.Dial()
			for i, c := range []*client{{first}, {second}, {third}} {
				if i == 2 {
					third.Send(ask)
				}
				if text, err := c.read(); (err == nil) != tt.good || tt.good && text != whole {
					t.Errorf("%s: client %d has got %d bytes, %v", tt.name, i, len(text), err)
				}
			}
			if n := g.asked.Load(); n != tt.again {
				t.Errorf("%s: %d requests to the handler, want %d", tt.name, n, tt.again)
			}
		}
	}, modes.Direct, modes.Several, modes.HTTP2)
}

// TestLeaderLeaves: the client that has asked leaves. The others get all; without others the
// handler stops, unless the answer is always to be fetched.
func TestLeaderLeaves(t *testing.T) {
	for _, buffering := range []bool{false, true} {
		t.Run(fmt.Sprint("buffering: ", buffering), func(t *testing.T) { testLeaderLeaves(t, buffering) })
	}
}

func testLeaderLeaves(t *testing.T, buffering bool) {
	for _, tt := range []struct {
		name, fill     string
		others, headed bool
		kept           bool
	}{
		{"alone", "", false, true, false},
		{"alone, no head", "", false, false, false},
		{"others", "", true, true, true},
		{"others, no head", "", true, false, true},
		{"always", "always", false, true, true},
		{"always, no head", "always", false, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate("max-age=100")
			s := startAs(t, modes.Several, cache.Settings{Fill: tt.fill}, g.serve, buffering)
			first, second := s.Dial(), s.Dial()
			first.Send(ask)
			wait.Until(t, "the first request", func() bool { return g.asked.Load() == 1 })
			if tt.others {
				second.Send(ask)
				s.Settle()
			}
			if tt.headed {
				g.head.Resolve("")
				if _, err := first.R.ReadByte(); err != nil {
					t.Error(err)
				}
			}
			first.Reset()
			if !tt.kept {
				wait.Until(t, "the end of the filling", func() bool { return s.stats().Filling == 0 })
			}
			s.Settle()
			g.head.Resolve("")
			g.rest.Resolve("")
			if tt.others {
				if text, err := (&client{second}).read(); err != nil || text != whole {
					t.Errorf("the other one: %d bytes, %v", len(text), err)
				}
			}
			want := int32(2)
			if tt.kept {
				want = 1
				wait.Until(t, "the answer is kept", func() bool { return s.stats().Fills == 1 })
			}
			if a, said := get(t, s, "/x"); a.Text != whole {
				t.Errorf("afterwards: %.100s", said)
			}
			if n := g.asked.Load(); n != want {
				t.Errorf("%d requests to the handler, want %d", n, want)
			}
		})
	}
}

// TestLock: a request waits for another's head no longer than lock says, and later ones do not wait
// for that at all.
func TestLock(t *testing.T) {
	g := newGate("max-age=100")
	s := start(t, modes.Direct, cache.Settings{Lock: new(time.Second)}, g.serve)
	first, second := s.Dial(), s.Dial()
	first.Send(ask)
	wait.Until(t, "the first request", func() bool { return g.asked.Load() == 1 })
	second.Send(ask)
	s.Settle()
	if n := g.asked.Load(); n != 1 {
		t.Errorf("%d requests to the handler while one waits", n)
	}
	s.Server.Skip(2 * time.Second)
	wait.Until(t, "the second one", func() bool { return g.asked.Load() == 2 })
	third, fourth := s.Dial(), s.Dial() // which wait for nobody
	third.Send(ask)
	wait.Until(t, "the third one", func() bool { return g.asked.Load() == 3 })
	fourth.Send(ask)
	wait.Until(t, "the fourth one", func() bool { return g.asked.Load() == 4 })
	g.head.Resolve("")
	g.rest.Resolve("")
	for _, c := range []*client{{first}, {second}, {third}, {fourth}} {
		if text, err := c.read(); err != nil || text != whole {
			t.Errorf("%d bytes, %v", len(text), err)
		}
	}
}

// TestLongAnswerAtOnce: a long answer that is there at once, and is not kept, reaches all that wait
// for it, at their pace.
func TestLongAnswerAtOnce(t *testing.T) {
	text := strings.Repeat("x", 4<<20)
	g := newGate("")
	s := start(t, modes.Direct, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
		g.asked.Add(1)
		_, _ = g.head.Await(req.Thread, wait.Patience)
		w.Header().Set("Cache-Control", "private")
		return w.Text(200, text)
	})
	first, second := s.Dial(), s.Dial()
	first.Send(ask)
	wait.Until(t, "the first request", func() bool { return g.asked.Load() == 1 })
	second.Send(ask)
	s.Settle()
	g.head.Resolve("")
	got := make(chan string, 1)
	go func() {
		text, _ := (&client{second}).read()
		got <- text
	}()
	if read, err := (&client{first}).read(); err != nil || read != text {
		t.Errorf("%d bytes, %v", len(read), err)
	}
	if read := <-got; read != text {
		t.Errorf("the second client: %d bytes", len(read))
	}
}

// TestMarksOfAKey: that an answer is not kept is remembered for requests with and without
// Authorization.
func TestMarksOfAKey(t *testing.T) {
	g := newGate("private")
	s := start(t, modes.Direct, cache.Settings{Lock: new(time.Hour)},
		func(req *conn.Request, w *conn.Response) int {
			if g.asked.Add(1) > 2 {
				_, _ = g.head.Await(req.Thread, wait.Patience)
			}
			w.Header().Set("Cache-Control", "private")
			return w.Text(200, "x")
		})
	get(t, s, "/x")
	get(t, s, "/x", "Authorization: Basic eDp5")
	clients := []*server.Client{s.Dial(), s.Dial()}
	for _, c := range clients {
		c.Send(ask)
	}
	wait.Until(t, "both ask the handler", func() bool { return g.asked.Load() == 4 })
	g.head.Resolve("")
	for _, c := range clients {
		if text, err := (&client{c}).read(); err != nil || text != "x" {
			t.Errorf("%q, %v", text, err)
		}
	}
}

// TestTooMuch: an answer whose handler writes more than it has declared is not kept.
func TestTooMuch(t *testing.T) {
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=100", "Content-Length: 5")
		w.Write([]byte("12345"))
		w.Flush()
		w.Write([]byte(whole)) // which is refused
		return 200
	}}
	s := start(t, modes.Direct, cache.Settings{}, o.serve)
	for range 2 {
		get(t, s, "/")
	}
	if n := s.stats().Fills; n != 0 || o.n.Load() != 2 {
		t.Errorf("%d answers are kept, %d requests to the handler", n, o.n.Load())
	}
}
