package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/pubsub"
)

// notice is what the server sends, as JSON; README.md tells which type has which members.
type notice struct {
	Type     string            `json:"type"`
	Room     string            `json:"room"`
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name,omitempty"`
	Text     string            `json:"text,omitempty"`
	Time     time.Time         `json:"time"`
	Names    []string          `json:"names,omitempty"`
	Messages []json.RawMessage `json:"messages,omitempty"`
}

// encode sets the time, to the millisecond.
func (n notice) encode() []byte {
	n.Time = time.Now().UTC().Truncate(time.Millisecond)
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // nobody puts it into HTML, and < would take six bytes
	_ = e.Encode(n)        // there is nothing in it that could not be encoded
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

func message(room, name, text string) []byte {
	return notice{Type: "message", Room: room, ID: rand.Text(), Name: name, Text: text}.encode()
}

// next returns the next message, nil if there is none at present.
func next(messages *pubsub.Subscription) *pubsub.Message {
	for {
		if m := messages.Next(); m == nil || genuine(m) {
			return m
		}
	}
}

// genuine tells messages from what somebody else may have written to a broker that is not ours alone.
var genuine = pubsub.Shared(func(data []byte) bool {
	var n notice
	return utf8.Valid(data) && json.Unmarshal(data, &n) == nil && n.Type == "message"
})

// history is the messages that are there at present, beginning with m. They are encoded already, and are put in as they
// are: people come more often than it would be good to go through all of it.
func history(room string, m *pubsub.Message, messages *pubsub.Subscription) []byte {
	text := notice{Type: "history", Room: room}.encode()
	text = append(text[:len(text)-1], `,"messages":[`...) // where its brace was
	for ; m != nil; m = next(messages) {
		text = append(append(text, m.Data...), ',')
	}
	return append(bytes.TrimSuffix(text, []byte(",")), "]}"...)
}

// lost is what somebody is told who is too slow.
func lost(room string, n int) notice {
	return notice{Type: "notice", Room: room, Text: fmt.Sprintf("%d messages came too fast for this connection, and are missing here.", n)}
}

// prepared is a message as it goes out on sockets, which is made once for everybody in a room.
var prepared = pubsub.Shared(func(data []byte) *websocket.PreparedMessage {
	p, err := websocket.Prepare(websocket.Text, data)
	if err != nil {
		panic(err) // only an invalid kind of message is an error
	}
	return p
})
