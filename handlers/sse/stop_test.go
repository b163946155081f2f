package sse_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// TestStopOfTheSlow: a stream whose client does not read what is left for it ends soon.
func TestStopOfTheSlow(t *testing.T) {
	t.Parallel()
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		t.Parallel()
		const many = 60 // more than kernels hold
		hub := pubsub.Hub{Limits: pubsub.Limits{TopicBytes: 32 << 20}}
		room := hub.Topic("room")
		ends, began := make(chan error, 1), time.Time{}
		large := make([]byte, 400_000)
		first := true
		k := talk{room: room, ends: ends, said: func(s *sse.Stream, m *pubsub.Message) error {
			if !first {
				return s.Send(sse.Event{Data: large})
			}
			first = false
			l := s.Thread().Loop()
			l.Stop(wait.Patience)
			_, _ = s.Thread().AwaitAny(-1, l.Stopped())
			for range many {
				room.Publish(nil)
			}
			began = time.Now()
			return nil
		}}
		s := server.Start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			return k.serve(req, resp)
		}})
		c := s.DialSmall()
		c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		must.Get(http.ReadResponse(c.R, nil))(t)
		s.Settle()
		room.Publish(nil)
		if err := receive(t, ends, "the end"); err == nil || err == http.ErrServerClosed ||
			err == loop.ErrClientGone {
			t.Errorf("ended with %v", err)
		}
		if took := time.Since(began); took > 15*time.Second { // half of what a write may take
			t.Errorf("took %v", took)
		}
	}, modes.Direct, modes.OverTLS)
}

// leaver is a member of a room that tells the others when it leaves.
type leaver struct {
	room *pubsub.Topic
	o    pubsub.Options
	ends chan<- error
}

func (l *leaver) Open(s *sse.Stream) {
	s.Subscribe(l.room, l.o, func(s *sse.Stream, m *pubsub.Message) {
		if m == nil {
			s.Close()
			return
		}
		_ = s.Send(sse.Event{Data: m.Data})
	})
	_ = s.Send(sse.Event{Data: []byte("hello")})
}
func (l *leaver) Closed(_ *sse.Stream, err error) {
	l.room.Publish([]byte("somebody has left"))
	l.ends <- err
}

// TestStopOfLeavers: what members of a room say when a stop ends them is for none of those that it
// ends later, however many there are.
func TestStopOfLeavers(t *testing.T) {
	t.Parallel()
	const many = 80
	for _, o := range []pubsub.Options{{Policy: pubsub.Disconnect}, {}} {
		room, ends := new(pubsub.Hub).Topic("room"), make(chan error, many)
		s := server.Start(t, modes.Direct,
			conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
				return sse.Serve(req, resp, &leaver{room, o, ends})
			}})
		var all []*http.Response
		for range many {
			resp, _ := get(s, "GET / HTTP/1.1")
			expect(t, resp.Body, dispatched{name: "message", data: "hello"})
			all = append(all, resp)
		}
		s.All[0].Stop(wait.Patience)
		for _, resp := range all {
			if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
				t.Errorf("then %q, %v", rest, err)
			}
		}
		for range many {
			if err := <-ends; err != http.ErrServerClosed {
				t.Errorf("%+v: ended with %v", o, err)
			}
		}
	}
}
