package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
	"github.com/gorilla/websocket"
)

// longestTask is how long the page may keep the browser from answering a key or a click, whatever
// arrives: less than a person notices. It is processor time, since a busy machine can stop any task
// for any time.
const longestTask = 100 * time.Millisecond

// The page of a room with 2,000 people, 150 messages a second and three times as many notices stays
// usable. The test makes up what the server sends: a server and its 2,000 clients would take all of
// the processor.
func TestBrowserCrowd(t *testing.T) {
	const people, perSecond, seconds = 2000, 150, 5
	name := func(i int) string { return fmt.Sprintf("Person %04d", i*7919%people) }
	said := func(i int) json.RawMessage {
		return message("r", name(i%97),
			frame{text: fmt.Sprintf("message %d of a crowd, see https://example.org/%d", i, i)})
	}
	begin := make(chan struct{})
	url := play(t, func(c *websocket.Conn) {
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for {
				if _, _, err := c.ReadMessage(); err != nil {
					return
				}
			}
		}()
		send := func(text []byte) {
			if err := c.WriteMessage(websocket.TextMessage, text); err != nil {
				t.Error(err)
			}
		}
		history := notice{Type: "history", Room: "r", Name: "Ann", More: true}
		for i := range pageful {
			history.Messages = append(history.Messages, said(-i))
		}
		send(history.encode())
		send(notice{Type: "presence", Room: "r", Names: []string{"Ann"}}.encode())
		<-begin
		for i := range people { // all at once
			send(notice{Type: "join", Room: "r", Names: []string{name(i)}}.encode())
		}
		names := []string{"Ann"}
		for i := range people {
			names = append(names, name(i))
		}
		// This is what a client gets that has missed notices.
		send(notice{Type: "presence", Room: "r", Names: names}.encode())
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		for i := range perSecond * seconds {
			<-tick.C
			send(said(i))
			send(notice{Type: "leave", Room: "r", Names: []string{name(i)}}.encode())
			send(notice{Type: "typing", Room: "r", Name: name(i + 1)}.encode())
			send(notice{Type: "join", Room: "r", Names: []string{name(i)}}.encode())
		}
		send(message("r", "Bob", frame{text: "the end"}))
		<-gone
	})

	w := open(t, 1200, 800)
	w.join(strings.TrimPrefix(url, "http://"), "r", "Ann")
	tasks := w.trace(func() {
		close(begin)
		w.until(`$("count").textContent === %s`, fmt.Sprint(people+1))
		w.begin("what is typed meanwhile")
		w.box("text", "what is typed meanwhile")
		w.until(`[...document.querySelectorAll(".text")].at(-1).textContent === "the end"`)
		w.until(`$("count").textContent === %s`, fmt.Sprint(people+1))
	})
	w.until(
		`document.querySelectorAll(".list .message").length === 500 && document.querySelectorAll("#people li").length < 100`)
	// All of the people can be scrolled to.
	w.until(
		`($("people").scrollTop = 1e9) > 0 && document.querySelector("#people").innerText.includes(%s)`,
		"Person 1999")
	if len(tasks) < perSecond*seconds {
		t.Fatalf("only %d tasks were seen", len(tasks))
	}
	longest := slices.Max(tasks)
	t.Logf("longest of %d tasks: %v", len(tasks), longest)
	if longest > longestTask {
		t.Errorf("a task of %v, at most %v are allowed", longest, longestTask)
	}
}

// trace returns how much of the processor each task of the page has taken that was begun while f
// ran.
func (w *tab) trace(f func()) (tasks []time.Duration) {
	w.Helper()
	type event struct {
		Name string `json:"name"`
		Pid  int    `json:"pid"`
		Tid  int    `json:"tid"`
		Args struct {
			Name string `json:"name"`
		} `json:"args"`
		Tdur float64 `json:"tdur"` // microseconds of the thread's own time
	}
	var events []event
	done := make(chan struct{})
	err := chromedp.Listen(w.ctx, func(e any) {
		switch e := e.(type) {
		case *tracing.EventDataCollected:
			for _, text := range e.Value {
				var one event
				if json.Unmarshal(text, &one) == nil {
					events = append(events, one)
				}
			}
		case *tracing.EventTracingComplete:
			close(done)
		}
	})
	if err != nil {
		w.Fatal(err)
	}
	if _, err := chromedp.Call(w.ctx, tracing.Start,
		tracing.StartParams{TraceConfig: &tracing.TraceConfig{
			IncludedCategories: []string{"disabled-by-default-devtools.timeline"},
			ExcludedCategories: []string{"*"},
		}}); err != nil {
		w.Fatal(err)
	}
	f()
	if _, err := chromedp.Call(w.ctx, tracing.End, cdp.Empty{}); err != nil {
		w.Fatal(err)
	}
	select {
	case <-done:
	case <-time.After(3 * patience): // on a busy machine thousands of events take their time
		w.Fatal("the trace does not end")
	}
	main := make(map[[2]int]bool)
	for _, e := range events {
		if e.Name == "thread_name" && e.Args.Name == "CrRendererMain" {
			main[[2]int{e.Pid, e.Tid}] = true
		}
	}
	for _, e := range events {
		if e.Name == "RunTask" && main[[2]int{e.Pid, e.Tid}] {
			tasks = append(tasks, time.Duration(e.Tdur*float64(time.Microsecond)))
		}
	}
	return tasks
}
