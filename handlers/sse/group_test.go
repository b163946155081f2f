package sse_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/pubsub"
)

// member is a member of a queue group, and follows another topic, whose messages keep it at work.
type member struct {
	jobs, work *pubsub.Topic
	name       string
	log        chan string
}

func (m *member) Open(s *sse.Stream) {
	s.Subscribe(m.jobs, pubsub.Options{Group: "workers"}, func(*sse.Stream, *pubsub.Message) {
		m.log <- m.name + " has a job"
	})
	s.Subscribe(m.work, pubsub.Options{}, func(s *sse.Stream, got *pubsub.Message) {
		if got != nil {
			m.log <- m.name + " works"
			_ = s.Thread().Sleep(time.Hour)
		}
	})
	_ = s.Send(sse.Event{Data: []byte("hello")})
}

func (*member) Closed(*sse.Stream, error) {}

// TestServeGroup: while the handler of a member of a queue group is at work, the group's messages
// are for another member.
func TestServeGroup(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		var hub pubsub.Hub
		log := make(chan string, 10)
		s := server.Start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			return sse.Serve(req, resp, &member{hub.Topic("jobs"), hub.Topic("work " + req.Path()),
				req.Path(), log})
		}})
		expectNext := func(want string) {
			t.Helper()
			began := time.Now()
			if got := receive(t, log, want); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if took := time.Since(began); took > 10*time.Second { // with a comment it looks anyhow
				t.Errorf("%q after %v", want, took)
			}
		}
		open := func(path string) {
			resp, _ := get(s, "GET "+path+" HTTP/1.1")
			expect(t, resp.Body, dispatched{name: "message", data: "hello"})
			s.Settle()
		}
		open("/one")
		hub.Topic("work /one").Publish(nil)
		expectNext("/one works")
		s.Settle()
		open("/two")
		for range 3 {
			hub.Topic("jobs").Publish(nil)
			expectNext("/two has a job")
			s.Settle()
		}
	}, modes.Direct, modes.HTTP2)
}
