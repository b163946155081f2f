package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// notice is what the server sends, as JSON; README.md says which type has which members.
type notice struct {
	Type     string            `json:"type"`
	Room     string            `json:"room"`
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name,omitempty"`
	Text     string            `json:"text,omitempty"`
	Time     time.Time         `json:"time"`
	Names    []string          `json:"names,omitempty"`
	After    string            `json:"after,omitempty"`
	Before   string            `json:"before,omitempty"`
	More     bool              `json:"more,omitempty"`
	Messages []json.RawMessage `json:"messages,omitempty"`
}

// encode sets the time, to the millisecond.
func (n notice) encode() []byte {
	n.Time = time.Now().UTC().Truncate(time.Millisecond)
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // the page never uses it as HTML, and < would take six bytes
	_ = e.Encode(n)        // it cannot fail
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// message is a frame for everybody in a room. A message that has no ID from the client gets one.
func message(room, name string, f frame) []byte {
	id := cmp.Or(f.id, rand.Text())
	return notice{Type: "message", Room: room, ID: id, Name: name, Text: f.text}.encode()
}

// next returns the next message, nil if there is none at present.
func next(messages *pubsub.Subscription) *pubsub.Message {
	for {
		if m := messages.Next(); m == nil || parsed(m).counts(m) {
			return m
		}
	}
}

// saying is what parsing a message has found.
type saying struct {
	room, id string
	verdict  atomic.Int32 // unknown, counted or discounted
}

const (
	unknown = iota
	counted
	discounted
)

// parsed returns the saying of a message; it is parsed once for all its readers.
var parsed = pubsub.Shared(func(data []byte) *saying {
	var n notice
	s := new(saying)
	if !utf8.Valid(data) || json.Unmarshal(data, &n) != nil || n.Type != "message" {
		s.verdict.Store(discounted) // another program uses the broker, too, and has written it
	} else if s.room, s.id = n.Room, n.ID; s.id == "" {
		s.verdict.Store(counted)
	}
	return s
})

// counts reports whether m is the first with its ID in its room. A client that does not know
// whether a message has arrived sends it again, perhaps to another process. All sockets of this
// process read a room in the same order, so the first of two is the same for all of them.
func (s *saying) counts(m *pubsub.Message) bool {
	if v := s.verdict.Load(); v != unknown {
		return v == counted
	}
	first := told.note(s.room, s.id, m.ID)
	if first == m.ID {
		s.verdict.Store(counted)
	} else {
		s.verdict.Store(discounted)
	}
	return first == m.ID
}

// firsts remembers which message was the first with its ID in a room, for at least the last
// maxFirsts messages. It identifies a message by its other ID, that of its publication, since the
// broker may bring the same publication again.
type firsts struct {
	sync.Mutex
	lately, before map[sayingKey]string
}

type sayingKey struct{ room, id string }

const maxFirsts = 1 << 14

var told firsts

// note returns the ID of the first publication, which is this one if there was none.
func (f *firsts) note(room, id, publication string) string {
	f.Lock()
	defer f.Unlock()
	key := sayingKey{room, id}
	if first := cmp.Or(f.lately[key], f.before[key]); first != "" {
		return first
	}
	if f.lately == nil || len(f.lately) == maxFirsts {
		f.lately, f.before = make(map[sayingKey]string), f.lately
	}
	f.lately[key] = publication
	return publication
}

// present returns the messages that have arrived by now, beginning with m.
func present(m *pubsub.Message, messages *pubsub.Subscription) (all []*pubsub.Message) {
	for ; m != nil; m = next(messages) {
		all = append(all, m)
	}
	return all
}

// place returns the index of the message with an ID, -1 if it is not there.
func place(all []*pubsub.Message, id string) int {
	for i := len(all) - 1; i >= 0 && id != ""; i-- {
		if parsed(all[i]).id == id {
			return i
		}
	}
	return -1
}

// history is the first frame for a client: who it is, and what was said after a message that it has
// seen, or the last page if that message is not there.
func history(room, you, after string, all []*pubsub.Message) []byte {
	n := notice{Type: "history", Room: room, Name: you}
	if i := place(all, after); i >= 0 {
		n.After, all = after, all[i+1:]
	} else if skip := len(all) - pageful; skip > 0 {
		n.More, all = true, all[skip:]
	}
	return n.with(all)
}

// older is the page before a message. If that message is not remembered, nothing before it is.
func older(t *loop.Thread, room, before string) []byte {
	messages := said(room).Subscribe(t, pubsub.Options{History: remembered})
	defer messages.Unsubscribe()
	all := present(next(messages), messages)
	all = all[:max(place(all, before), 0)]
	n := notice{Type: "older", Room: room, Before: before}
	if skip := len(all) - pageful; skip > 0 {
		n.More, all = true, all[skip:]
	}
	return n.with(all)
}

// with adds messages. They are encoded already, and are copied as they are: every newcomer gets
// them, and to encode them anew each time would be expensive.
func (n notice) with(all []*pubsub.Message) []byte {
	text := n.encode()
	text = append(text[:len(text)-1], `,"messages":[`...) // in the place of its last brace
	for _, m := range all {
		text = append(append(text, m.Data...), ',')
	}
	return append(bytes.TrimSuffix(text, []byte(",")), "]}"...)
}

// lost tells a client that it was too slow, and missed n messages.
func lost(room string, n int) notice {
	text := fmt.Sprintf("%d messages came too fast for this connection, and are missing here.", n)
	return notice{Type: "notice", Room: room, Text: text}
}

// prepared is a message as it goes out on sockets. It is framed once for everybody in a room.
var prepared = pubsub.Shared(func(data []byte) *websocket.PreparedMessage {
	p, err := websocket.Prepare(websocket.Text, data)
	if err != nil {
		panic(err) // only an invalid kind of message is an error
	}
	return p
})
