package main

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/gorilla/websocket"
	"github.com/lwango/lwango/internal/test/loopback"
	"github.com/lwango/lwango/internal/test/program"
)

// shows waits until a window shows these messages, each once, in any order, and none that is not
// sent. It returns the order.
func (w *tab) shows(texts ...string) []string {
	w.Helper()
	w.until(
		`JSON.stringify([...document.querySelectorAll(".list .text")].map((e) => e.textContent).toSorted()) === JSON.stringify(%s) &&
		document.querySelector(".waiting") === null`, slices.Sorted(slices.Values(texts)))
	return w.texts()
}

func numbers(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("message %02d", i))
	}
	return all
}

// apart starts a server with two people in a room, of whom Ann, in a window, is behind a proxy.
func apart(t *testing.T) (ann *tab, bob *client, p *proxy) {
	t.Helper()
	s := program.Start(t)
	p = startProxy(t, s.Address)
	ann = open(t, 800, 600)
	ann.join(p.Addr().String(), "r", "Ann")
	bob, _ = join(t, s, "r", "Bob")
	return ann, bob, p
}

// Messages typed faster than the server takes them arrive, in order.
func TestBrowserQuick(t *testing.T) {
	t.Parallel()
	ann, s := visit(t, 800, 600)
	bob, _ := join(t, s, "r", "Bob")
	all := numbers(0, 2*burst+6)
	ann.paste(all...)
	for _, text := range all {
		bob.hears("Ann", text)
	}
	if got := ann.shows(all...); !slices.Equal(got, all) {
		t.Errorf("shown are %q", got)
	}
}

// The network is gone without an event. What is written meanwhile is shown as not sent, and arrives
// once when the network is back; so does what was under way.
func TestBrowserSwallowed(t *testing.T) {
	t.Parallel()
	ann, bob, p := apart(t)
	ann.say("before")
	bob.hears("Ann", "before")
	ann.shows("before")
	p.swallow(toServer | toClient)
	ann.say("one")
	ann.say("two")
	ann.until(
		`[...document.querySelectorAll(".waiting .text")].map((e) => e.textContent).join() === "one,two"`)
	bob.say("missed")
	ann.until(`$("status").dataset.state !== "open"`) // no event has told it
	ann.say("three")
	ann.until(`document.querySelectorAll(".waiting").length === 3`)
	p.swallow(0)
	bob.hears("Bob", "missed")
	for _, text := range []string{"one", "two", "three"} {
		bob.hears("Ann", text)
	}
	if got, want := ann.shows("before", "missed", "one", "two", "three"),
		[]string{"before", "missed", "one", "two", "three"}; !slices.Equal(got, want) {
		t.Errorf("shown are %q", got)
	}
}

// Only one direction is gone: our messages do not arrive, and those of others do.
func TestBrowserSwallowedToServer(t *testing.T) {
	t.Parallel()
	ann, bob, p := apart(t)
	p.swallow(toServer)
	ann.say("one")
	ann.until(`document.querySelectorAll(".waiting").length === 1`)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(300 * time.Millisecond):
				_ = bob.WriteMessage(websocket.TextMessage, []byte("blah"))
			}
		}
	}()
	ann.until(`$("status").dataset.state !== "open"`)
	close(stop)
	p.swallow(0)
	ann.until(`document.querySelector(".waiting") === null && $("status").dataset.state === "open"`)
	ann.sees("one")
	ann.say("end")
	heard := 0
	for n := bob.next("message"); n.Text != "end"; n = bob.next("message") {
		if n.Name == "Ann" {
			heard++
		}
	}
	if heard != 1 {
		t.Errorf("Bob has heard %d messages", heard)
	}
}

// A message has arrived, and the page is not told.
func TestBrowserSwallowedToClient(t *testing.T) {
	t.Parallel()
	ann, bob, p := apart(t)
	p.swallow(toClient)
	ann.say("one")
	bob.hears("Ann", "one")
	ann.until(`document.querySelector(".waiting .text").textContent === "one"`)
	ann.until(`$("status").dataset.state !== "open"`)
	p.swallow(0)
	ann.until(`document.querySelector(".waiting") === null && $("status").dataset.state === "open"`)
	ann.sees("one")
	ann.say("end")
	bob.hears("Ann", "end") // and nothing before
}

// The server crashes while messages arrive, and the next one knows nothing of them. All of them
// arrive, each once.
func TestBrowserCrash(t *testing.T) {
	t.Parallel()
	s := program.StartAt(t, loopback.Host()+":0")
	ann, bob := open(t, 800, 600), open(t, 800, 600)
	ann.join(s.Address, "r", "Ann")
	bob.join(s.Address, "r", "Bob")
	all := numbers(0, burst+6)
	ann.paste(all...)
	bob.until(`document.querySelectorAll(".message").length > 3`)
	s.End(t, syscall.SIGKILL)
	s = program.StartAt(t, s.Address)
	if got := bob.shows(all...); !slices.Equal(got, all) {
		t.Errorf("Bob sees %q", got)
	}
	if got := ann.shows(all...); !slices.Equal(got, all) {
		t.Errorf("Ann sees %q", got)
	}

	// Nor does a reload lose anything.
	s.End(t, syscall.SIGKILL)
	ann.state("waiting")
	ann.say("written alone")
	ann.do(chromedp.Navigate("about:blank"))
	s = program.StartAt(t, s.Address)
	ann.do(chromedp.Navigate("http://" + s.Address + "/?room=r"))
	bob.sees("written alone")
}
