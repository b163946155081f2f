package main

import (
	"crypto/rand"
	"encoding/json"
	"testing"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// What another program writes to the broker keeps no one out of a room.
func TestForeignMessages(t *testing.T) {
	loops.Run(t, func(th *loop.Thread) {
		topic := said(rand.Text())
		for _, text := range []string{"\xff", "{", `"message"`, `{"type":"leave","name":"Ann"}`,
			`{"type":"message","text":5}`, "{\"type\":\"message\",\"text\":\"\xff\"}"} {
			topic.Publish([]byte(text))
		}
		topic.Publish(message("foreign", "Ann", frame{text: "ours"}))
		messages := topic.Subscribe(th, pubsub.Options{History: remembered})
		var got notice
		if err := json.Unmarshal(history("foreign", "Ann", "", present(next(messages), messages)),
			&got); err != nil || len(got.Messages) != 1 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}
