package main

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/lwango/lwango/bench/tasks"
)

// gorillaServer ends with the test's process.
func gorillaServer(t *testing.T) string {
	ln := listen(t)
	go serveNetHTTP(ln, &chatHub{upgrader: frugal, queue: tasks.Queue}, "", "", "")
	return ln.Addr().String()
}

func TestChat(t *testing.T) {
	o := chatTestOptions(gorillaServer(t))
	f, err := attempt(loadChat, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkChat(f); err != nil {
		t.Error(err)
	}
	if f["perSecond"] < 200 || f["perSecond"] > 1600 || f["cpu"] <= 0 || f["latency50"] <= 0 || f["latency50"] > f["latency99"] || f["latency99"] > f["longest"] {
		t.Errorf("%+v", f)
	}
	// The server outlives its members.
	if _, err := attempt(func(j job) bool { verifyChat(j); return true }, o); err != nil {
		t.Error(err)
	}
}

func TestWSEcho(t *testing.T) {
	o := echoOf(gorillaServer(t))
	o.Path, o.Size = tasks.EchoPath, 125
	f, err := attempt(loadLoop, o)
	if err != nil {
		t.Fatal(err)
	}
	if f["perSecond"] < 60 || f["cpu"] <= 0 {
		t.Errorf("%+v", f)
	}
}

func TestWSIdle(t *testing.T) {
	f, err := attempt(loadIdleWS, job{Addrs: []string{gorillaServer(t)}, PIDs: ownPID,
		load: load{Path: tasks.RoomPath, Collect: tasks.CollectPath, Conns: 120}})
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
		check  string // what the counts say
		err    string
	}{
		{name: "one lost", check: "1 deliveries lost, 0 reordered, 0 doubled", change: func(n int64, text []byte) [][]byte {
			if n == 17 {
				return nil
			}
			return [][]byte{text}
		}},
		{name: "one doubled", check: "0 deliveries lost, 0 reordered, 1 doubled", change: func(n int64, text []byte) [][]byte {
			if n == 17 {
				return [][]byte{text, text}
			}
			return [][]byte{text}
		}},
		{name: "two swapped", check: "0 deliveries lost, 1 reordered, 0 doubled", change: func(n int64, text []byte) [][]byte {
			switch n {
			case 1:
				kept = append(kept, text...)
				return nil
			case 2:
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
		f, err := attempt(loadChat, o)
		switch {
		case row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)):
			t.Errorf("%s: %v, want %q", row.name, err, row.err)
		case row.err == "" && (err != nil || checkChat(f) == nil || checkChat(f).Error() != row.check):
			t.Errorf("%s: %v, %v, want %q", row.name, checkChat(f), err, row.check)
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
	o.Listen = o.Duration
	if _, err := attempt(loadChat, o); err == nil || !strings.Contains(err.Error(), "12 of 12 members do not hear") {
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
		conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.ClosePolicyViolation, "no"))
		conn.Close()
	}))
	if _, err := attempt(loadChat, chatTestOptions(ln.Addr().String())); err == nil || !strings.Contains(err.Error(), `closed it with 1008 "no"`) {
		t.Error(err)
	}
}

func chatTestOptions(addrs ...string) job {
	return job{Addrs: addrs, Duration: 50 * time.Millisecond, Listen: verifyLimit, Patience: 200 * time.Millisecond, PIDs: ownPID,
		load: load{Path: tasks.RoomPath, Conns: 12, Rooms: 3, Talkers: 2, Rate: 400}}
}

func TestChatMessage(t *testing.T) {
	for _, m := range []chatMessage{{}, {1, 2, 3}, {1<<32 - 1, 1<<32 - 1, 1<<63 - 1}} {
		p := m.appendTo(nil)
		got, err := parseChatMessage(p)
		if got != m || err != nil || len(p) != chatSize {
			t.Errorf("%+v of %d bytes: %+v, %v", m, len(p), got, err)
		}
		for _, bad := range []string{string(p[1:]), string(p) + "x", "g" + string(p[1:]), string(p[:chatSize-1]) + "-", ""} {
			if _, err := parseChatMessage([]byte(bad)); err == nil {
				t.Errorf("%q passed", bad)
			}
		}
	}
}

// Four members in two rooms of one talker each: members 0 and 1 talk, 2 hears 0, 3 hears 1.
func TestTally(t *testing.T) {
	type counts struct{ expected, lost, reordered, doubled int64 }
	rows := []struct {
		name string
		sent int      // messages of member 0
		came []uint32 // to member 2; member 0 hears all
		want counts
	}{
		{"all", 3, []uint32{1, 2, 3}, counts{6, 0, 0, 0}},
		{"none", 3, nil, counts{6, 3, 0, 0}},
		{"the last lost", 3, []uint32{1, 2}, counts{6, 1, 0, 0}},
		{"the first lost", 3, []uint32{2, 3}, counts{6, 1, 0, 0}},
		{"two in the middle lost", 4, []uint32{1, 4}, counts{8, 2, 0, 0}},
		{"swapped", 3, []uint32{1, 3, 2}, counts{6, 0, 1, 0}},
		{"backwards", 3, []uint32{3, 2, 1}, counts{6, 0, 2, 0}},
		{"the last again", 3, []uint32{1, 2, 3, 3}, counts{6, 0, 0, 1}},
		{"an old one again", 3, []uint32{1, 2, 3, 1}, counts{6, 0, 0, 1}},
		{"a late one twice", 3, []uint32{1, 3, 2, 2}, counts{6, 0, 1, 1}},
		{"doubling hides no loss", 3, []uint32{1, 1, 3}, counts{6, 1, 0, 1}},
	}
	for _, row := range rows {
		c := newTally(4, 2, 1)
		for range row.sent {
			if err := c.add(0, chatMessage{sender: 0, number: c.next(0)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range row.came {
			if err := c.add(2, chatMessage{sender: 0, number: n}); err != nil {
				t.Fatal(err)
			}
		}
		if got := (counts{c.expected, c.lost(), c.reordered, c.doubled}); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
	}
}

func TestTallyRefuses(t *testing.T) {
	c := newTally(4, 2, 1)
	c.next(0)
	for want, m := range map[string]chatMessage{
		"another room": {sender: 0, number: 1},
		"never sent":   {sender: 1, number: 1},
	} {
		if err := c.add(3, m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", m, err, want)
		}
	}
	for _, m := range []chatMessage{{sender: 0, number: 0}, {sender: 0, number: 2}, {sender: 2, number: 1}, {sender: 1 << 31, number: 1}} {
		if err := c.add(2, m); err == nil {
			t.Errorf("%+v passed", m)
		}
	}
}

// Rooms need not be equally large.
func TestTallyExpected(t *testing.T) {
	c := newTally(7, 3, 2) // 0 3 6, 1 4, 2 5
	for sender, want := range []int64{3, 2, 2, 3, 2, 2} {
		before := c.expected
		if c.next(sender); c.expected-before != want {
			t.Errorf("member %d has %d to hear it, want %d", sender, c.expected-before, want)
		}
	}
}

// In any order, with any losses and repetitions, the counts are those of a slow count beside it.
func TestTallyAtRandom(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		c := newTally(1, 1, 1)
		sent := 1 + random.IntN(20)
		for range sent {
			c.next(0)
		}
		seen, high := map[uint32]bool{}, uint32(0)
		var reordered, doubled int64
		for range random.IntN(40) {
			n := uint32(1 + random.IntN(sent))
			switch {
			case seen[n]:
				doubled++
			case n < high:
				reordered++
			}
			seen[n], high = true, max(high, n)
			if err := c.add(0, chatMessage{number: n}); err != nil {
				t.Fatal(err)
			}
		}
		if c.lost() != int64(sent-len(seen)) || c.reordered != reordered || c.doubled != doubled {
			t.Errorf("seed %d: %d lost, %d reordered, %d doubled; want %d, %d, %d", seed, c.lost(), c.reordered, c.doubled, sent-len(seen), reordered, doubled)
		}
	}
}
