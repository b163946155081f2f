package main

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/program"
)

// shared is a broker that processes share.
type shared interface {
	URL() string
	Kill() // kill -9
	Restart()
}

// brokers start one each.
var brokers = map[string]func(t *testing.T) shared{
	"redis": func(t *testing.T) shared { return broker.Start(t) },
	"nats":  startNATS,
}

// sharing starts a process that shares its rooms over a broker.
func sharing(t *testing.T, b shared) *program.Server {
	t.Helper()
	config := program.Configure(t, t.TempDir(), fmt.Sprintf("[pubsub]\nurl = %q\n", b.URL()))
	return program.Start(t, "-c", config)
}

// Two processes share a room, and go on alone while there is no broker between them.
func TestProcesses(t *testing.T) {
	for name, start := range brokers {
		t.Run(name, func(t *testing.T) { testProcesses(t, start(t)) })
	}
}

func testProcesses(t *testing.T, b shared) {
	one, two := sharing(t, b), sharing(t, b)
	ann, _ := join(t, one, "r", "Ann")
	ann.say("first")
	ann.hears("Ann", "first")
	bob, messages := join(t, two, "r", "Bob")
	for len(messages) == 0 { // the first one in this process has to wait for it
		switch n := bob.read(); n.Type {
		case "history":
			messages = bob.messages(n)
		case "message": // it was on its way to the broker when Bob came
			messages = append(messages, n)
		}
	}
	if len(messages) != 1 || messages[0].Text != "first" {
		t.Errorf("history: %+v", messages)
	}
	ann.sees("Ann", "Bob")
	bob.sees("Ann", "Bob")
	bob.say(`{"type":"typing"}`)
	if n := ann.next("typing"); n.Name != "Bob" {
		t.Errorf("got %+v", n)
	}
	bob.say("second")
	ann.hears("Bob", "second")
	bob.hears("Bob", "second")
	cat, messages := join(t, two, "r", "Cat")
	if len(messages) != 2 || messages[1].Text != "second" {
		t.Errorf("history: %+v", messages)
	}
	ann.sees("Ann", "Bob", "Cat")
	window, _ := join(t, one, "r", "Bob") // of the same person, at the other process
	cat.vanish()
	ann.sees("Ann", "Bob")
	window.vanish()
	bob.say("still here")
	for n := ann.read(); n.Type != "message"; n = ann.read() {
		if n.Type == "leave" {
			t.Errorf("got %+v", n)
		}
	}
	bob.hears("Bob", "still here")

	b.Kill()
	ann.next("notice")
	bob.next("notice")
	ann.say("meanwhile")
	ann.hears("Ann", "meanwhile") // at once
	b.Restart()
	ann.next("notice")
	bob.hears("Ann", "meanwhile")
	bob.say("there you are")
	ann.hears("Bob", "there you are")
	bob.Conn.Close()
	ann.sees("Ann")
}

// Three processes share a room. The people of one that dies are gone soon, also if the broker
// starts again meanwhile, and nobody else is.
func TestProcessDies(t *testing.T) {
	for name, start := range brokers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			one, two, three := sharing(t, b), sharing(t, b), sharing(t, b)
			ann, _ := join(t, one, "r", "Ann")
			bob, _ := join(t, two, "r", "Bob")
			cat, _ := join(t, three, "r", "Cat")
			window, _ := join(t, two, "r", "Cat") // which is hers, too
			for _, c := range []*client{ann, bob, cat, window} {
				c.sees("Ann", "Bob", "Cat")
			}
			three.End(t, syscall.SIGKILL)
			b.Kill()
			b.Restart()
			window.vanish()
			ann.patience += time.Minute
			ann.sees("Ann", "Bob")
			bob.sees("Ann", "Bob")
		})
	}
}
