package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/pubsub"
)

// What a server sends between the history and the list of people is still to be read after join:
// the first socket of a process learns there what other processes know, and when that comes depends
// on the broker.
func TestJoinLosesNothing(t *testing.T) {
	t.Parallel()
	first := message("r", "Ann", frame{text: "first"})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.Close()
		for _, text := range [][]byte{
			history("r", "Bob", "", nil),
			history("r", "Bob", "", []*pubsub.Message{{Data: first}}),
			first,
			notice{Type: "presence", Room: "r", Names: []string{"Bob"}}.encode(),
		} {
			_ = ws.WriteMessage(websocket.TextMessage, text)
		}
	}))
	t.Cleanup(server.Close)
	s := &program.Server{Address: server.Listener.Addr().String()}
	bob, messages := join(t, s, "r", "Bob")
	if len(messages) > 0 {
		t.Errorf("history: %+v", messages)
	}
	if got := bob.messages(bob.next("history")); len(got) != 1 || got[0].Text != "first" {
		t.Errorf("what was learnt later: %+v", got)
	}
	bob.hears("Ann", "first")
}
