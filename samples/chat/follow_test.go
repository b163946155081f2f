package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
)

// stream is a room that is followed.
type stream struct {
	*testing.T
	lines *bufio.Scanner
	stop  func()
}

func follows(t *testing.T, s *program.Server, room, last string) *stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	req := must.Get(http.NewRequestWithContext(ctx, "GET", "http://"+s.Address+"/sse-chat?room="+room,
		nil))(t)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp := must.Get(http.DefaultClient.Do(req))(t)
	t.Cleanup(func() { resp.Body.Close() })
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 ||
		got != "text/event-stream" {
		t.Fatalf("%s, %s", resp.Status, got)
	}
	return &stream{t, bufio.NewScanner(resp.Body), cancel}
}

// hears reads the next event, which has to be this message, and returns its ID.
func (f *stream) hears(text string) (id string) {
	f.Helper()
	var m notice
	for f.lines.Scan() {
		field, value, _ := strings.Cut(f.lines.Text(), ": ")
		switch field {
		case "id":
			id = value
		case "data":
			if err := json.Unmarshal([]byte(value), &m); err != nil {
				f.Fatal(err)
			}
		case "":
			if m.Type != "message" || m.Text != text || id == "" {
				f.Fatalf("got %+v with ID %q, want %q", m, id, text)
			}
			return id
		}
	}
	f.Fatalf("ended before %q: %v", text, f.lines.Err())
	return ""
}

// A follower of a room gets all messages, is not shown there, and goes on where it was after an
// interruption.
func TestFollow(t *testing.T) {
	s := program.Start(t)
	ann, _ := join(t, s, "r", "Ann")
	ann.say("1")
	ann.hears("Ann", "1")
	f := follows(t, s, "r", "")
	f.hears("1")
	ann.say("2")
	last := f.hears("2")
	f.stop()
	ann.say("3")
	ann.say("4")
	ann.hears("Ann", "2")
	ann.hears("Ann", "3")
	ann.hears("Ann", "4")
	f = follows(t, s, "r", last)
	f.hears("3")
	f.hears("4")
	ann.say("5")
	f.hears("5")
	f = follows(t, s, "r", "never-seen")
	for i := range 5 {
		f.hears(fmt.Sprint(i + 1))
	}
	if len(ann.here) != 1 {
		t.Errorf("here: %v", ann.here)
	}
}

func TestFollowBadRoom(t *testing.T) {
	s := program.Start(t)
	resp := must.Get(http.Get("http://" + s.Address + "/sse-chat?room=%00"))(t)
	body := must.Body(t, resp)
	if resp.StatusCode != 400 || body != "room: only printable characters are allowed\n" {
		t.Errorf("%s: %q", resp.Status, body)
	}
}
