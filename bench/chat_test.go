package main

import (
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/lwango/lwango/bench/tasks"
)

// socketServer is a peer that speaks WebSocket. It ends with the test's process.
func socketServer(t *testing.T, name string) string {
	t.Helper()
	addr := freeAddress()
	go attempt(serveCommand, []string{name, addr})
	for end := time.Now().Add(verifyLimit); ; time.Sleep(time.Millisecond) {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return addr
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// eachSocketServer runs a test with each peer that speaks WebSocket.
func eachSocketServer(t *testing.T, test func(t *testing.T, addr string)) {
	for _, name := range []string{"gorilla", "coder", "nbio"} {
		t.Run(name, func(t *testing.T) { test(t, socketServer(t, name)) })
	}
}

func TestChat(t *testing.T) {
	eachSocketServer(t, testChat)
	t.Run("floor", func(t *testing.T) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // each of its threads has rooms of its own
		testChat(t, socketServer(t, "floor"))
	})
}

func testChat(t *testing.T, addr string) {
	o := chatTestOptions(addr)
	f, err := attempt(loadChat, o)
	if err != nil {
		t.Fatal(err)
	}
	if f["perSecond"] <= 0 || f["perSecond"] > 1600 || f["cpu"] <= 0 || f["latency50"] <= 0 ||
		f["latency50"] > f["latency99"] || f["latency99"] > f["longest"] {
		t.Errorf("%+v", f)
	}
	// The server outlives its members. Rooms need not be equally large: 0 3 6, 1 4, 2 5.
	o.Conns = 7
	if _, err := attempt(loadChat, o); err != nil {
		t.Error(err)
	}
}

func TestWSEcho(t *testing.T) { eachSocketServer(t, testWSEcho) }

func testWSEcho(t *testing.T, addr string) {
	o := echoOf(addr)
	o.Path, o.Size = tasks.EchoPath, 125
	f, err := attempt(loadLoop, o)
	if err != nil {
		t.Fatal(err)
	}
	if f["perSecond"] <= 0 || f["cpu"] <= 0 {
		t.Errorf("%+v", f)
	}
}

func TestWSIdle(t *testing.T) { eachSocketServer(t, testWSIdle) }

func testWSIdle(t *testing.T, addr string) {
	f, err := attempt(loadIdle, job{Addr: addr, Group: ownGroup, Patience: verifyLimit,
		load: load{Path: tasks.EchoPath, Collect: tasks.CollectPath, Conns: 120, Size: 125, Depth: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := f["bytesEach"]; !ok || f["resident"] <= 0 || f["cpu"] <= 0 {
		t.Errorf("%+v", f)
	}
}

// badChat is a room whose deliveries of the test's messages, not those of settling, go through
// change: what it gives is what the member gets instead.
func badChat(t *testing.T, change func(delivery int64, text []byte) [][]byte) string {
	var hub chatHub
	var deliveries atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc(tasks.RoomPath, func(w http.ResponseWriter, r *http.Request) {
		conn, err := frugal.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		m := &chatMember{conn: conn, queue: make(chan *websocket.PreparedMessage, tasks.Queue)}
		room := hub.room(r.URL.Query().Get("room"))
		room.join(m)
		defer room.leave(m)
		for {
			_, text, err := conn.ReadMessage()
			if err != nil {
				return
			}
			room.mu.Lock()
			for _, other := range room.members {
				texts := [][]byte{text}
				if m, err := parseChatMessage(text); err == nil && m.number > 0 {
					texts = change(deliveries.Add(1), text)
				}
				for _, text := range texts {
					other.conn.WriteMessage(websocket.TextMessage, text)
				}
			}
			room.mu.Unlock()
		}
	})
	ln := listen(t)
	go (&http.Server{Handler: mux}).Serve(ln)
	return ln.Addr().String()
}

func TestChatNoticesWhatIsWrong(t *testing.T) {
	var kept []byte
	rows := []struct {
		name   string
		change func(delivery int64, text []byte) [][]byte
		err    string
	}{
		{name: "one lost", err: "hears message 18 of member 0 after its message 16",
			change: func(n int64, text []byte) [][]byte {
				if n == 17 {
					return nil
				}
				return [][]byte{text}
			}},
		{name: "all lost from one on", err: "5 of 21 deliveries lost",
			change: func(n int64, text []byte) [][]byte {
				if n > 16 {
					return nil
				}
				return [][]byte{text}
			}},
		{name: "one doubled", err: "hears message 17 of member 0 after its message 17",
			change: func(n int64, text []byte) [][]byte {
				if n == 17 {
					return [][]byte{text, text}
				}
				return [][]byte{text}
			}},
		{name: "two swapped", err: "hears message 6 of member 0 after its message 4",
			change: func(n int64, text []byte) [][]byte {
				switch n {
				case 5:
					kept = append(kept, text...)
					return nil
				case 6:
					return [][]byte{text, kept}
				}
				return [][]byte{text}
			}},
		{name: "other bytes", err: "other bytes came", change: func(_ int64, text []byte) [][]byte {
			return [][]byte{append(text[:len(text)-1:len(text)-1], '!')}
		}},
		{name: "invented", err: "never sent", change: func(_ int64, text []byte) [][]byte {
			return [][]byte{chatMessage{number: 1000}.appendTo(nil)}
		}},
	}
	for _, row := range rows {
		o := chatTestOptions(badChat(t, row.change))
		o.Conns, o.Rooms, o.Talkers = 1, 1, 1 // whose deliveries are in the order of what is sent
		o.Patience = 2 * time.Second
		if _, err := attempt(loadChat, o); err == nil || !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: %v, want %q", row.name, err, row.err)
		}
	}
}

// A member who hears nothing from the beginning is noticed before anything is measured.
func TestChatNoticesDeafMembers(t *testing.T) {
	ln := listen(t)
	go http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := frugal.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		for {
			if _, _, err := conn.ReadMessage(); err != nil {
				return
			}
		}
	}))
	o := chatTestOptions(ln.Addr().String())
	o.Patience = o.Duration
	if _, err := attempt(loadChat, o); err == nil ||
		!strings.Contains(err.Error(), "12 of 12 members hear nobody") {
		t.Error(err)
	}
}

func TestChatNoticesWhoHangsUp(t *testing.T) {
	ln := listen(t)
	go http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := frugal.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		conn.ReadMessage()
		conn.WriteMessage(websocket.CloseMessage,
			websocket.FormatCloseMessage(websocket.ClosePolicyViolation, "no"))
		conn.Close()
	}))
	if _, err := attempt(loadChat, chatTestOptions(ln.Addr().String())); err == nil ||
		!strings.Contains(err.Error(), `closed it with 1008 "no"`) {
		t.Error(err)
	}
}

func chatTestOptions(addr string) job {
	return job{Addr: addr, timing: timing{Duration: 50 * time.Millisecond}, Patience: verifyLimit,
		Group: ownGroup,
		load:  load{Path: tasks.RoomPath, Conns: 12, Rooms: 3, Talkers: 2, Rate: 400}}
}

func TestChatMessage(t *testing.T) {
	for _, m := range []chatMessage{{}, {1, 2, 3}, {1<<32 - 1, 1<<32 - 1, 1<<63 - 1}} {
		p := m.appendTo(nil)
		got, err := parseChatMessage(p)
		if got != m || err != nil || len(p) != chatSize {
			t.Errorf("%+v of %d bytes: %+v, %v", m, len(p), got, err)
		}
		for _, bad := range []string{string(p[1:]), string(p) + "x", "g" + string(p[1:]),
			string(p[:chatSize-1]) + "-", ""} {
			if _, err := parseChatMessage([]byte(bad)); err == nil {
				t.Errorf("%q passed", bad)
			}
		}
	}
}

// Four members in two rooms of one talker each: members 0 and 1 talk, 2 hears 0, 3 hears 1.
func TestTake(t *testing.T) {
	for _, row := range []struct {
		name           string
		member, sender int
		numbers        []uint32 // that come to the member, of three that were sent
		want           string   // of the last
	}{
		{"all", 2, 0, []uint32{0, 1, 2, 3}, ""},
		{"own", 1, 1, []uint32{1, 2, 3}, ""},
		{"settling again", 2, 0, []uint32{0, 0, 1}, ""},
		{"the first lost", 2, 0, []uint32{2}, "message 2 of member 0 after its message 0"},
		{"one in the middle lost", 2, 0, []uint32{1, 3}, "message 3 of member 0 after its message 1"},
		{"again", 2, 0, []uint32{1, 2, 2}, "message 2 of member 0 after its message 2"},
		{"an old one again", 3, 1, []uint32{1, 2, 1}, "message 1 of member 1 after its message 2"},
		{"never sent", 2, 0, []uint32{1, 2, 3, 4}, "never sent"},
		{"another room", 3, 0, []uint32{1}, "never sent to this room"},
		{"another room's settling", 3, 0, []uint32{0}, "never sent to this room"},
		{"no talker", 2, 2, []uint32{0}, "never sent"},
		{"no member", 2, 1 << 31, []uint32{0}, "never sent"},
	} {
		c := &chatClient{job: job{load: load{Rooms: 2, Talkers: 1}}, latency: newHistogram(), deaf: 4,
			sent: []uint32{3, 3}, heard: make([][]uint32, 4)}
		for i, n := range row.numbers {
			err := c.take(row.member, chatMessage{sender: uint32(row.sender), number: n}.appendTo(nil), 1)
			last := i == len(row.numbers)-1
			if row.want == "" || !last {
				if err != nil || c.deaf != 3 {
					t.Errorf("%s, message %d: %v, %d deaf", row.name, n, err, c.deaf)
				}
			} else if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s: %v, want %q", row.name, err, row.want)
			}
		}
		if row.name == "all" && (c.came != 3 || c.latency.TotalCount() != 3) {
			t.Errorf("%d came, %d latencies", c.came, c.latency.TotalCount())
		}
	}
}

func TestIdleChat(t *testing.T) {
	eachSocketServer(t, func(t *testing.T, addr string) {
		o := chatTestOptions(addr)
		o.Conns, o.Collect = 30, tasks.CollectPath
		if f, err := attempt(loadIdleChat, o); err != nil || f["resident"] <= 0 {
			t.Errorf("%+v, %v", f, err)
		}
	})
}

func TestDeflated(t *testing.T) {
	eachSocketServer(t, func(t *testing.T, addr string) {
		o := chatTestOptions(addr)
		o.Path, o.Conns, o.Size = tasks.DeflatePath, 2, 1<<10
		f, err := attempt(loadDeflated, o)
		if err != nil || f["share"] <= 0 || f["share"] > 0.5 {
			t.Errorf("%+v, %v", f, err)
		}
		o.Path = tasks.EchoPath // which does not deflate
		if f, err := attempt(loadDeflated, o); err != nil || f["share"] < 1 {
			t.Errorf("not deflated: %+v, %v", f, err)
		}
	})
}

func TestIdleEvents(t *testing.T) {
	o := chatTestOptions(socketServer(t, "nethttp"))
	o.Path, o.Collect, o.Conns = tasks.EventsPath, tasks.CollectPath, 25
	if f, err := attempt(loadIdleEvents, o); err != nil || f["resident"] <= 0 {
		t.Errorf("%+v, %v", f, err)
	}
	// A server that says nothing in some of the rooms.
	mux := http.NewServeMux()
	handleEvents(mux)
	some := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == tasks.SayPath && r.URL.Query().Get("room") == "1" {
			w.WriteHeader(http.StatusOK)
			return
		}
		mux.ServeHTTP(w, r)
	})
	ln := listen(t)
	go (&http.Server{Handler: some}).Serve(ln)
	o.Addr, o.Patience, o.Collect = ln.Addr().String(), 200*time.Millisecond, ""
	if _, err := attempt(loadIdleEvents, o); err == nil ||
		!strings.Contains(err.Error(), "stream 11 has heard 0 events of 1") {
		t.Errorf("%v", err)
	}
}
