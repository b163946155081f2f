package main

import (
	"fmt"
	"net/netip"
	"net/url"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/pubsub"
)

func parseAddr(t *testing.T, s string) netip.Addr {
	t.Helper()
	addr := must.Get(netip.ParseAddr(s))(t)
	return addr
}

func withID(id, text string) string {
	return fmt.Sprintf(`{"type":"message","id":%q,"text":%q}`, id, text)
}

// A message with an ID is acknowledged. If it is sent again, over any connection, it is
// acknowledged again, but neither passed on again nor twice in the history.
func TestSaidTwice(t *testing.T) {
	s := program.Start(t)
	bob, _ := join(t, s, "r", "Bob")
	ann, _ := join(t, s, "r", "Ann")
	for range 2 {
		ann.say(withID("message-1", "Hello"))
		if n := ann.next("ack"); n.ID != "message-1" {
			t.Errorf("got %+v", n)
		}
	}
	ann.vanish()
	ann, messages := join(t, s, "r", "Ann")
	if len(messages) != 1 || messages[0].ID != "message-1" || messages[0].Text != "Hello" {
		t.Errorf("history: %+v", messages)
	}
	ann.say(withID("message-1", "Hello"))
	ann.next("ack")
	ann.say(withID("message-2", "Bye"))
	if n := bob.hears("Ann", "Hello"); n.ID != "message-1" {
		t.Errorf("got %+v", n)
	}
	bob.hears("Ann", "Bye")
	if _, messages = join(t, s, "r", "Eve"); len(messages) != 2 {
		t.Errorf("history: %+v", messages)
	}
	eve, _ := join(t, s, "another", "Eve")
	eve.say(withID("message-1", "elsewhere"))
	eve.hears("Eve", "elsewhere")
	f := follows(t, s, "r", "")
	f.hears("Hello")
	f.hears("Bye")
}

// It may be sent again to another process, before that has got the first or afterwards.
func TestSaidToTwoProcesses(t *testing.T) {
	b := broker.Start(t)
	one, two := sharing(t, b), sharing(t, b)
	ann, _ := join(t, one, "r", "Ann")
	again, _ := join(t, two, "r", "Ann")
	bob, _ := join(t, one, "r", "Bob")
	cat, _ := join(t, two, "r", "Cat")
	ann.say(withID("message-1", "Hello"))
	again.say(withID("message-1", "Hello"))
	cat.hears("Ann", "Hello")
	again.say(withID("message-1", "Hello"))
	again.say("end")
	bob.hears("Ann", "Hello")
	bob.hears("Ann", "end")
	cat.hears("Ann", "end")
	for _, s := range []*program.Server{one, two} {
		eve, messages := join(t, s, "r", "Eve")
		if len(messages) != 2 {
			t.Errorf("history: %+v", messages)
		}
		for !bob.here["Eve"] {
			bob.read()
		}
		eve.Conn.Close()
	}
	// A process that has left the room learns again what it knew.
	for _, c := range []*client{again, cat} {
		c.Conn.Close()
	}
	bob.sees("Ann", "Bob") // Eve and Cat have left
	dan, messages := join(t, two, "r", "Dan")
	for len(messages) < 2 {
		messages = append(messages, dan.messages(dan.next("history"))...)
	}
	if len(messages) != 2 {
		t.Errorf("history: %+v", messages)
	}
}

// A room with one member costs the broker next to nothing, and not for long.
func TestAloneCostsLittle(t *testing.T) {
	b := broker.Start(t)
	s := sharing(t, b)
	for i := range 5 {
		c, _ := join(t, s, "r", fmt.Sprint(i))
		c.say(withID("message-1", "x"))
		c.next("ack")
		c.Conn.Close()
	}
	ann, _ := join(t, s, "r", "Ann")
	ann.sees("Ann")
	ann.Conn.Close()
	s.End(t, syscall.SIGTERM) // which sends what is still to be sent
	const key = "lwango:topic:" + pubsub.PresenceTopic
	// Who comes and who goes, a question at first, and that the process ends.
	if n := b.Do("XLEN", key).(int64); n < 2 || n > 20 {
		t.Errorf("%d entries", n)
	}
	if d := b.Do("PTTL", key).(int64); d <= 0 || d > 20000 {
		t.Errorf("they are kept for %d ms", d)
	}
}

// A client that comes back gets what it has missed, and nothing else; it may ask for what was
// before.
func TestOlder(t *testing.T) {
	s := program.Start(t)
	const n = 3*pageful + 7
	var ids []string
	for i := 0; i < n; {
		c, _ := join(t, s, "r", "Ann")
		for range burst {
			if i < n {
				ids = append(ids, fmt.Sprintf("message-%03d", i))
				c.say(withID(ids[i], fmt.Sprint(i)))
				c.next("ack")
				i++
			}
		}
		c.vanish()
	}
	back := func(after string) (*client, notice, []notice) {
		c := connect(t, s, "/ws-chat?"+
			url.Values{"room": {"r"}, "name": {"Bob"}, "after": {after}}.Encode())
		h := c.next("history")
		return c, h, c.messages(h)
	}
	c, h, messages := back(ids[n-3])
	if len(messages) != 2 || h.After != ids[n-3] || h.More || messages[0].ID != ids[n-2] {
		t.Errorf("got %+v", h)
	}
	if _, h, messages := back(ids[4]); len(messages) != n-5 || h.After != ids[4] ||
		messages[0].ID != ids[5] {
		t.Errorf("%d messages after %q", len(messages), h.After)
	}
	if _, h, messages := back("never heard of"); len(messages) != pageful || h.After != "" ||
		!h.More {
		t.Errorf("%d messages, after %q, more: %v", len(messages), h.After, h.More)
	}

	for before := n - pageful; before > 0; before -= pageful {
		c.say(fmt.Sprintf(`{"type":"older","before":%q}`, ids[before]))
		h := c.next("older")
		messages := c.messages(h)
		if want := min(pageful, before); len(messages) != want ||
			messages[want-1].ID != ids[before-1] || h.More != (before > pageful) ||
			h.Before != ids[before] {
			t.Errorf("before %d: %d messages, more: %v", before, len(messages), h.More)
		}
	}
	c.say(`{"type":"older","before":"never heard of"}`)
	if h := c.next("older"); len(h.Messages) > 0 || h.More {
		t.Errorf("got %+v", h)
	}
}

// Both ways to write é are one.
func TestNormalised(t *testing.T) {
	s := program.Start(t)
	one := connect(t, s, "/ws-chat?"+
		url.Values{"room": {"Caf\u00e9"}, "name": {"Zo\u00eb"}}.Encode())
	one.next("presence")
	two := connect(t, s, "/ws-chat?"+
		url.Values{"room": {"Cafe\u0301"}, "name": {"Zoe\u0308"}}.Encode())
	if n := two.next("history"); n.Name != "Zo\u00eb" || n.Room != "Caf\u00e9" {
		t.Errorf("got %+v", n)
	}
	if n := two.next("presence"); len(n.Names) != 1 {
		t.Errorf("got %+v", n)
	}
}
