package main

import (
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/lwango/lwango/bench/chatrules"
)

var ownPID = []int{os.Getpid()}

// gorillaServer ends with the test's process.
func gorillaServer(t *testing.T) string {
	ln := listen(t)
	go serveGorilla(ln)
	return ln.Addr().String()
}

func TestChat(t *testing.T) {
	o := chatTestOptions(gorillaServer(t))
	report, err := loadChat(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.check(); err != nil {
		t.Error(err)
	}
	if report.Messages != 20 || report.Delivered != 20*4 || report.Took <= 0 || report.CPU.total() <= 0 || report.P50 <= 0 || report.P50 > report.P99 || report.P99 > report.Max {
		t.Errorf("%+v", report)
	}
	// The server outlives its members.
	if err := verifyChat(o.Addrs[0], work{path: chatrules.RoomPath}); err != nil {
		t.Error(err)
	}
}

func TestWSEcho(t *testing.T) {
	o := echoOf(gorillaServer(t))
	o.Path, o.Size = chatrules.EchoPath, 125
	report, err := loadWSEcho(o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Messages < 3 || report.Took < o.Duration || report.CPU.total() <= 0 {
		t.Errorf("%+v", report)
	}
}

func TestWSIdle(t *testing.T) {
	report, err := loadWSIdle(wsIdleOptions{Addr: gorillaServer(t), Path: chatrules.RoomPath, Conns: 120, PIDs: ownPID})
	if err != nil {
		t.Fatal(err)
	}
	if report.Before <= 0 || report.After <= 0 || report.CPU.total() <= 0 {
		t.Errorf("%+v", report)
	}
}

// badChat is a room whose deliveries of the test's messages, not those of settling, go through change: what it gives is
// what the member gets instead.
func badChat(t *testing.T, change func(delivery int64, text []byte) [][]byte) string {
	hub := chatHub{rooms: map[string]*chatRoom{}}
	var deliveries atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc(chatrules.RoomPath, func(w http.ResponseWriter, r *http.Request) {
		conn, err := frugal.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		m := &chatMember{conn: conn, queue: make(chan *websocket.PreparedMessage, chatrules.Queue)}
		room := hub.join(r.URL.Query().Get("room"), m)
		defer hub.leave(r.URL.Query().Get("room"), room, m)
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
		o.Members, o.Rooms, o.Talkers, o.Watch = 1, 1, 1, 0 // whose deliveries are in the order of what is sent
		report, err := loadChat(o)
		switch {
		case row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)):
			t.Errorf("%s: %v, want %q", row.name, err, row.err)
		case row.err == "" && (err != nil || report.check() == nil || report.check().Error() != row.check):
			t.Errorf("%s: %v, %v, want %q", row.name, report.check(), err, row.check)
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
	if _, err := loadChat(o); err == nil || !strings.Contains(err.Error(), "12 of 12 members do not hear") {
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
	if _, err := loadChat(chatTestOptions(ln.Addr().String())); err == nil || !strings.Contains(err.Error(), `closed it with 1008 "no"`) {
		t.Error(err)
	}
}

func TestParseSwitches(t *testing.T) {
	const text = "Name:\tx\nThreads:\t4\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n"
	if n, err := parseSwitches([]byte(text)); n != 150 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, bad := range []string{"", "nonvoluntary_ctxt_switches:\t1\n", "voluntary_ctxt_switches:\tx\nnonvoluntary_ctxt_switches:\t1\n"} {
		if _, err := parseSwitches([]byte(bad)); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
	if n, err := readSwitches(ownPID); n <= 0 || err != nil {
		t.Errorf("own: %d, %v", n, err)
	}
}
