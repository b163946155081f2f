package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"sync"
	"syscall"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/must"
)

// A stop comes while people speak. What was acknowledged until then the next process has, once.
func TestAcknowledgedBeforeStop(t *testing.T) {
	b := broker.Start(t)
	s := sharing(t, b)
	first, _ := join(t, s, "r", "Ann")
	first.say(withID("message-first", "first"))
	first.next("ack")

	var speaking sync.WaitGroup
	acks := make(chan string, 12*burst)
	for i := range 6 {
		c, _ := join(t, s, "r", fmt.Sprint("speaker ", i))
		speaking.Go(func() {
			for n := range burst + 5 { // the last ones wait for their quota
				text := withID(fmt.Sprintf("message-%d-%02d", i, n), "x")
				if c.WriteMessage(websocket.TextMessage, []byte(text)) != nil {
					return
				}
			}
		})
		speaking.Go(func() {
			for {
				var n notice
				if err := c.ReadJSON(&n); err != nil {
					if !websocket.IsCloseError(err, websocket.CloseGoingAway) {
						t.Errorf("ended with %v", err)
					}
					return
				}
				if n.Type == "ack" {
					acks <- n.ID
				}
			}
		})
	}
	missing := map[string]bool{<-acks: true}
	if code := s.End(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	speaking.Wait()
	for len(acks) > 0 {
		missing[<-acks] = true
	}
	t.Logf("%d messages were acknowledged", len(missing))

	s = sharing(t, b)
	c := connect(t, s, "/ws-chat?"+
		url.Values{"room": {"r"}, "name": {"Bob"}, "after": {"message-first"}}.Encode())
	heard := map[string]bool{}
	hear := func(m notice) {
		if heard[m.ID] {
			t.Errorf("%s comes twice", m.ID)
		}
		heard[m.ID] = true
		delete(missing, m.ID)
	}
	say := sync.OnceFunc(func() { c.say(withID("message-last", "last")) })
	for !heard["message-last"] {
		switch n := c.read(); n.Type {
		case "history":
			for _, text := range n.Messages {
				var m notice
				must.Do(t, json.Unmarshal(text, &m))
				hear(m)
			}
		case "message":
			hear(n)
		}
		if len(missing) == 0 { // what comes twice is still to come
			say()
		}
	}
}
