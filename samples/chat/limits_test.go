package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
)

// What a client says too quickly is passed on a little later, all of it and in order. Typing does
// not count as a message, and has a limit of its own.
func TestQuickMessages(t *testing.T) {
	t.Parallel()
	s := program.Start(t)
	ann, _ := join(t, s, "r", "Ann")
	bob, _ := join(t, s, "r", "Bob")
	const n = burst + 6
	for i := range n {
		for range 4 {
			ann.say(`{"type":"typing"}`)
		}
		ann.say(fmt.Sprint(i))
	}
	typing := 0
	for i := 0; i < n; {
		switch got := bob.read(); got.Type {
		case "typing":
			typing++
		case "message":
			if got.Text != fmt.Sprint(i) {
				t.Fatalf("message %d: %+v", i, got)
			}
			i++
		}
	}
	if typing == 0 || typing > 4*typingLimit.burst {
		t.Errorf("typing was passed on %d times", typing)
	}
}

// A client that sends too many frames is sent away, even if they are no messages.
func TestFrameFlood(t *testing.T) {
	s := program.Start(t)
	for _, frame := range []string{`{"type":"ping"}`, `{"type":"typing"}`,
		`{"type":"older","before":"x"}`} {
		c, _ := join(t, s, "r", "Bad")
		go func() { // the answers must be read meanwhile
			for range 10 * frameLimit.burst {
				if c.WriteMessage(1, []byte(frame)) != nil {
					break
				}
			}
		}()
		if code, reason := c.closed(); code != 1008 || reason != "too many frames" {
			t.Errorf("%s: closed with %d, %q", frame, code, reason)
		}
	}
}

func TestPing(t *testing.T) {
	s := program.Start(t)
	c, _ := join(t, s, "r", "Ann")
	c.say(`{"type":"ping"}`)
	c.next("pong")
}

// One address has a limit of sockets, of whatever kind, and of rooms; other addresses are not
// affected.
func TestGuests(t *testing.T) {
	const most = 40
	s := program.Start(t, "-per-address", fmt.Sprint(most))
	refused := func(c *client, want string) {
		t.Helper()
		if code, reason := c.closed(); code != 1013 || reason != want {
			t.Errorf("closed with %d, %q, want %q", code, reason, want)
		}
	}
	var all []*client
	for i := range roomsPerAddress {
		c, _ := join(t, s, fmt.Sprint("room ", i), "Ann")
		all = append(all, c)
	}
	refused(connect(t, s, "/ws-chat?name=Ann&room=another"), "too many rooms from your address")
	for range most - roomsPerAddress - 1 {
		join(t, s, "room 0", "Ann")
	}
	echo := connect(t, s, "/ws-read")
	refused(connect(t, s, "/ws-chat?name=Ann&room=room+0"),
		"too many connections from your address")
	for _, path := range []string{"/sse-chat?room=r", "/ws-write", "/ws-read"} {
		resp := must.Get(http.Get("http://" + s.Address + path))(t)
		body := must.Body(t, resp)
		if resp.StatusCode != 503 || body != "too many connections from your address\n" ||
			resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %s, %q", path, resp.Status, body)
		}
	}
	other := connectFrom(t, s, "/ws-chat?name=Bob&room=room+0", 2)
	other.next("presence")
	echo.Conn.Close()
	// When the server has noticed that, there is a place again, but not yet in another room.
	for {
		c := connect(t, s, "/ws-chat?name=Ann&room=room+0")
		if n := new(notice); c.ReadJSON(n) == nil && n.Type == "history" {
			c.Conn.Close()
			break
		}
	}
	all[1].Conn.Close()
	for {
		c := connect(t, s, "/ws-chat?name=Ann&room=another")
		if n := new(notice); c.ReadJSON(n) == nil && n.Type == "history" {
			break
		}
	}
}

// Coming and going is bounded, too.
func TestJoins(t *testing.T) {
	s := program.Start(t)
	began := time.Now()
	for n := 0; ; n++ {
		c := connect(t, s, "/ws-chat?"+url.Values{"name": {"Ann"}}.Encode())
		var first notice
		if err := c.ReadJSON(&first); err == nil {
			c.vanish()
			if n > joinLimit.burst+joinLimit.rate*int(time.Since(began).Seconds()+1) {
				t.Fatalf("%d joins in %v", n, time.Since(began))
			}
			continue
		} else if !strings.Contains(err.Error(), "too many new connections") {
			t.Fatal(err)
		}
		break
	}
	connectFrom(t, s, "/ws-chat?name=Bob", 2).next("presence")
}

func TestGuestsForgotten(t *testing.T) {
	now := time.Now()
	defer clear(guests.from)
	for i := range 1000 {
		addr := fmt.Sprintf("10.0.%d.%d", i/250, i%250)
		network, _ := networkOf(parseAddr(t, addr))
		guests.from[network] = new(guest)
	}
	for range 1000 {
		forgetGuests(now)
	}
	if len(guests.from) > 0 {
		t.Errorf("%d are remembered", len(guests.from))
	}
}

func TestNetworkOf(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1":            "192.0.2.1/32",
		"::ffff:192.0.2.1":     "192.0.2.1/32",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
		"fe80::1%eth0":         "fe80::/64",
	} {
		if got, ok := networkOf(parseAddr(t, addr)); !ok || got.String() != want {
			t.Errorf("%s: %v, want %s", addr, got, want)
		}
	}
}
