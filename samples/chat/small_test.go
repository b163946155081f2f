package main

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/lwango/lwango/internal/test/program"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	s := program.Start(t)
	c := connect(t, s, "/ws-write")
	c.say("is read, and comes to nothing")
	var numbers []int64
	for range 2 {
		_, p, err := c.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseInt(string(p), 10, 64)
		if err != nil {
			t.Error(err)
		}
		numbers = append(numbers, n)
	}
	if numbers[0] == numbers[1] {
		t.Errorf("%d is not random", numbers[0])
	}
	c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""))
	if code, _ := c.closed(); code != 1000 {
		t.Errorf("closed with %d", code)
	}
}

func TestRead(t *testing.T) {
	s := program.Start(t)
	c := connect(t, s, "/ws-read")
	for _, text := range []string{"hello", "", "hello again"} {
		c.say(text)
		_, p, err := c.ReadMessage()
		if err != nil || !regexp.MustCompile(`^\d+\.\d{3} s: `+text+`$`).Match(p) {
			t.Errorf("got %q, %v", p, err)
		}
	}
	c.WriteMessage(websocket.BinaryMessage, []byte{1, 2})
	if kind, p, err := c.ReadMessage(); err != nil || kind != websocket.BinaryMessage ||
		string(p[len(p)-2:]) != "\x01\x02" {
		t.Errorf("got kind %d, %q, %v", kind, p, err)
	}
}
