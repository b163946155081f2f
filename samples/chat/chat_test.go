package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
)

// client is one person's socket.
type client struct {
	*testing.T
	*websocket.Conn
	here     map[string]bool // as the server has told it
	kept     []notice        // to be read again, before what comes
	patience time.Duration   // with what is to be read next
}

func connect(t *testing.T, s *program.Server, path string) *client {
	t.Helper()
	return connectFrom(t, s, path, 1)
}

// connectFrom connects from the n-th of the machine's own addresses.
func connectFrom(t *testing.T, s *program.Server, path string, n int) *client {
	t.Helper()
	dialer :=
		websocket.Dialer{NetDialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0,
			byte(n>>8), byte(n))}}).DialContext}
	ws, resp, err := dialer.Dial("ws://"+s.Address+path, nil)
	if err != nil {
		t.Fatal(err, resp)
	}
	t.Cleanup(func() { ws.Close() })
	ws.SetReadDeadline(time.Now().Add(patience))
	return &client{T: t, Conn: ws, here: make(map[string]bool), patience: patience}
}

// join connects, and returns the history, which comes first. When it returns, the client knows who
// is there. What has come before it knew that is still to be read.
func join(t *testing.T, s *program.Server, room, name string) (*client, []notice) {
	t.Helper()
	c := connect(t, s, "/ws-chat?"+url.Values{"room": {room}, "name": {name}}.Encode())
	first := c.next("history")
	messages := c.messages(first)
	var between []notice
	list := c.read()
	for ; list.Type != "presence"; list = c.read() {
		between = append(between, list)
	}
	c.kept = between
	if you := first.Name; you != name || list.Name != "" || !c.here[name] {
		t.Fatalf("%s is %q; here: %v", name, you, c.here)
	}
	return c, messages
}

// messages returns what a history has.
func (c *client) messages(history notice) (messages []notice) {
	c.Helper()
	for _, text := range history.Messages {
		var m notice
		if err := json.Unmarshal(text, &m); err != nil {
			c.Fatal(err)
		}
		messages = append(messages, m)
	}
	return messages
}

// next reads until something of that type comes.
func (c *client) next(kind string) notice {
	c.Helper()
	for {
		n := c.read()
		if n.Type == kind {
			return n
		}
	}
}

func (c *client) read() (n notice) {
	c.Helper()
	if len(c.kept) > 0 {
		n, c.kept = c.kept[0], c.kept[1:]
		return n
	}
	c.SetReadDeadline(time.Now().Add(c.patience))
	if err := c.ReadJSON(&n); err != nil {
		c.Fatal(err)
	}
	if d := time.Since(n.Time); n.Type == "" || n.Room == "" || d < -time.Second || d > time.Hour {
		c.Fatalf("incomplete: %+v", n)
	}
	switch n.Type {
	case "presence":
		clear(c.here)
		for _, name := range n.Names {
			c.here[name] = true
		}
	case "join":
		for _, name := range n.Names {
			c.here[name] = true
		}
	case "leave":
		for _, name := range n.Names {
			delete(c.here, name)
		}
	}
	return n
}

// sees reads until these, and nobody else, are there.
func (c *client) sees(names ...string) {
	c.Helper()
	for {
		all := len(c.here) == len(names)
		for _, name := range names {
			all = all && c.here[name]
		}
		if all {
			return
		}
		c.read()
	}
}

func (c *client) say(text string) {
	c.Helper()
	if err := c.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		c.Fatal(err)
	}
}

// hears reads until the next message, which has to be this one.
func (c *client) hears(name, text string) notice {
	c.Helper()
	n := c.next("message")
	if n.Name != name || n.Text != text || n.ID == "" {
		c.Fatalf("got %+v, want %s: %.100q", n, name, text)
	}
	return n
}

// closed reads until the server closes, and returns the code and the reason.
func (c *client) closed() (int, string) {
	c.Helper()
	for {
		if _, _, err := c.ReadMessage(); err != nil {
			e, ok := err.(*websocket.CloseError)
			if !ok {
				c.Fatal(err)
			}
			return e.Code, e.Text
		}
	}
}

// vanish ends a connection without a close frame, as a crash would.
func (c *client) vanish() {
	c.NetConn().(*net.TCPConn).SetLinger(0)
	c.Conn.Close()
}

func TestConversation(t *testing.T) {
	s := program.Start(t)
	ann, _ := join(t, s, "garden", "Ann")
	bob, _ := join(t, s, "garden", "Bob")
	elsewhere, _ := join(t, s, "cellar", "Eve")
	ann.sees("Ann", "Bob")
	bob.sees("Ann", "Bob")

	ann.say("Hello")
	bob.say(`{"type":"message","text":"<b>Hi</b>\n\"Ann\""}`)
	var ids []string
	for _, c := range []*client{ann, bob} {
		got := []notice{c.next("message"), c.next("message")}
		slices.SortFunc(got, func(a, b notice) int { return strings.Compare(a.Name, b.Name) })
		if got[0].Text != "Hello" || got[1].Text != "<b>Hi</b>\n\"Ann\"" ||
			got[0].Room != "garden" {
			t.Errorf("got %+v", got)
		}
		ids = append(ids, got[0].ID, got[1].ID)
	}
	if ids[0] != ids[2] || ids[1] != ids[3] || ids[0] == ids[1] {
		t.Errorf("IDs: %q", ids)
	}

	ann.say(`{"type":"typing"}`)
	if n := bob.next("typing"); n.Name != "Ann" {
		t.Errorf("got %+v", n)
	}
	ann.say("   ") // says nothing
	ann.say("Bye")
	bob.hears("Ann", "Bye")
	ann.Conn.Close()
	if n := bob.next("leave"); !slices.Equal(n.Names, []string{"Ann"}) {
		t.Errorf("got %+v", n)
	}
	elsewhere.say("Anybody here?")
	elsewhere.hears("Eve", "Anybody here?") // and nothing else
}

// A client that comes later sees the last 50 messages, in order, and each once.
func TestHistory(t *testing.T) {
	s := program.Start(t)
	// Several people, since one would exceed the limit.
	const people, each = 4, 15
	for i := range people {
		c, _ := join(t, s, "r", fmt.Sprint(i))
		for j := range each {
			c.say(fmt.Sprint(i*each + j))
			c.next("message")
		}
		c.Conn.Close()
	}
	late, messages := join(t, s, "r", "late")
	if len(messages) != pageful {
		t.Fatalf("%d messages", len(messages))
	}
	ids := make(map[string]bool)
	for i, m := range messages {
		if want := fmt.Sprint(people*each - pageful + i); m.Text != want || m.Type != "message" {
			t.Errorf("%d: got %+v, want %s", i, m, want)
		}
		ids[m.ID] = true
	}
	if len(ids) != pageful {
		t.Errorf("%d different IDs", len(ids))
	}
	late.say("now")
	late.hears("late", "now")
	if _, messages := join(t, s, "other", "late"); len(messages) > 0 {
		t.Errorf("another room begins with %+v", messages)
	}
}

// Several windows are one person.
func TestWindows(t *testing.T) {
	s := program.Start(t)
	bob, _ := join(t, s, "r", "Bob")
	one, _ := join(t, s, "r", "Ann")
	bob.sees("Ann", "Bob")
	two, _ := join(t, s, "r", "Ann")
	one.vanish()
	cat, _ := join(t, s, "r", "Cat")
	two.say("still here")
	for {
		n := bob.read()
		if n.Type == "leave" || n.Type == "join" && slices.Contains(n.Names, "Ann") {
			t.Fatalf("got %+v", n)
		}
		if n.Type == "message" {
			break
		}
	}
	two.vanish()
	bob.sees("Bob", "Cat")
	cat.sees("Bob", "Cat")
}

// What is refused is refused to its sender alone, with a code that says why.
func TestRefused(t *testing.T) {
	s := program.Start(t)
	ann, _ := join(t, s, "r", "Ann")
	for _, c := range []struct {
		kind int
		sent string
		code int
	}{
		{websocket.BinaryMessage, "hello", 1003},
		{websocket.TextMessage, "\xff", 1007},
		{websocket.TextMessage, `{"type":"shout","text":"x"}`, 1007},
		{websocket.TextMessage, `{"type":"message","text":5}`, 1007},
		{websocket.TextMessage, strings.Repeat("x", maxText+1), 1009},
		{websocket.TextMessage, strings.Repeat("x", maxFrame+1), 1009},
		{websocket.TextMessage, strings.Repeat("x", 1<<20), 1009},
	} {
		bad, _ := join(t, s, "r", "Bad")
		ann.sees("Ann", "Bad")
		_ = bad.WriteMessage(c.kind, []byte(c.sent)) // the server may close before it has read all
		if code, reason := bad.closed(); code != c.code || reason == "" {
			t.Errorf("%.40q: closed with %d, %q, want %d", c.sent, code, reason, c.code)
		}
		ann.sees("Ann")
	}
	ann.say("nobody else was there")
	ann.hears("Ann", "nobody else was there")
}

func TestBadNames(t *testing.T) {
	s := program.Start(t)
	for query, want := range map[string]string{
		"room=r":                                 "name is missing",
		"room=r&name=":                           "name is missing",
		"room=r&name=A%0AB":                      "name: only printable characters are allowed",
		"room=%00&name=Ann":                      "room: only printable characters are allowed",
		"name=A%FF":                              "name: only printable characters are allowed",
		"name=" + strings.Repeat("x", maxName+1): "name: at most 32 characters are allowed",
	} {
		c := connect(t, s, "/ws-chat?"+query)
		if code, reason := c.closed(); code != 1008 || reason != want {
			t.Errorf("%s: closed with %d, %q, want %q", query, code, reason, want)
		}
	}
}

// A client that sends too much is sent away, and no more than is allowed was passed on.
func TestFlood(t *testing.T) {
	s := program.Start(t)
	ann, _ := join(t, s, "r", "Ann")
	bad, _ := join(t, s, "r", "Bad")
	began := time.Now()
	for i := range 200 {
		if bad.WriteMessage(websocket.TextMessage, fmt.Append(nil, i)) != nil {
			break
		}
	}
	if code, reason := bad.closed(); code != 1008 || reason != "too many messages" {
		t.Errorf("closed with %d, %q", code, reason)
	}
	// What was held when the client left has not been published.
	allowed := burst + int(time.Since(began).Seconds()*rate) + 1
	ann.say("quiet now")
	for n := 0; ; n++ {
		m := ann.next("message")
		if m.Name == "Ann" {
			if n > allowed {
				t.Errorf("%d messages of %d that are allowed", n, allowed)
			}
			break
		}
	}
	ann.sees("Ann")
}

// However many vanish at once: those that stay know who is there, though there are more notices
// than are kept for them.
func TestManyVanish(t *testing.T) {
	const many = 4 * noticeQueue
	s := program.Start(t)
	ann, _ := join(t, s, "r", "Ann")
	clients := make([]*client, many)
	var group sync.WaitGroup
	for i := range clients {
		clients[i] = connectFrom(t, s, fmt.Sprintf("/ws-chat?room=r&name=%d", i), 2+i%8)
		group.Go(func() { // reads what arrives
			for {
				if _, _, err := clients[i].ReadMessage(); err != nil {
					return
				}
			}
		})
	}
	for len(ann.here) < many+1 {
		ann.read()
	}
	for _, c := range clients {
		c.vanish()
	}
	group.Wait()
	ann.sees("Ann")
	ann.say("alone")
	ann.hears("Ann", "alone")
}

// A server that stops tells its clients, and ends when they have left.
func TestStop(t *testing.T) {
	s := program.Start(t)
	ann, _ := join(t, s, "r", "Ann")
	follower := follows(t, s, "r", "")
	must.Do(t, s.Signal(syscall.SIGTERM))
	if code, _ := ann.closed(); code != 1001 {
		t.Errorf("closed with %d", code)
	}
	if follower.lines.Scan() || follower.lines.Err() != nil {
		t.Errorf("a follower got %q, %v", follower.lines.Text(), follower.lines.Err())
	}
	ann.Conn.Close()
	if code := s.End(t, 0); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// People who are silent cost nothing.
func TestQuiet(t *testing.T) {
	s := program.Start(t)
	const many = 100
	var last *client
	for i := range many {
		last, _ = join(t, s, "r", fmt.Sprint(i))
	}
	for len(last.here) < many {
		last.read()
	}
	before := s.CPU(t)
	time.Sleep(time.Second) // the time that is measured, not a wait
	if used := s.CPU(t) - before; used > 50*time.Millisecond {
		t.Errorf("%v of the processor for a second of silence", used)
	}
}
