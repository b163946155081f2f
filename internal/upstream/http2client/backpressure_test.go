package http2client_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/upstream/http2client"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// room reports, from the session's loop, whether there is room.
func (s *session) room() bool {
	r := make(chan bool, 1)
	s.ls.On(func(*loop.Loop) { r <- s.Room() })
	return <-r
}

// TestRoomSilent: a connection whose server is silent gets no new request until it has said
// something.
func TestRoomSilent(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan bool), make(chan bool)
	s := dial(t, run(t), "", func(p *fakeServer) {
		p.await(http2.Headers)
		begun <- true
		f, _ := p.await(http2.Ping)
		begun <- true
		<-goOn
		p.send(http2.Ping, http2.Ack, 0, string(f.payload))
		p.send(http2.Headers, end|endHeaders, 1, ok)
		p.drain()
	})
	done := s.start("GET", "")
	<-begun
	s.ls.Skip(12 * time.Second)
	<-begun
	if s.room() {
		t.Error("room while it is silent")
	}
	goOn <- true
	if g := <-done; g.status != 200 || !s.room() {
		t.Error(g)
	}
}

// TestRoomBacklog: what is held for a server that takes nothing is bounded.
func TestRoomBacklog(t *testing.T) {
	t.Parallel()
	const size = 8 << 10
	s := dial(t, run(t), "", (*fakeServer).drain)
	done := make(chan int, 1)
	s.ls.Go(0, func(th *loop.Thread) {
		head := []byte("GET / HTTP/1.1\r\nHost: a\r\nX-A: " + strings.Repeat("x", size) + "\r\n\r\n")
		var all []*http2client.Stream
		for s.Room() { // nothing goes out before this thread waits
			st, _ := s.Stream(th, liveness)
			st.Open(head, true, 1<<10, false)
			all = append(all, st)
		}
		for _, st := range all {
			st.Close()
		}
		done <- len(all)
	})
	if n := <-done; n < 100 || n > 300 {
		t.Error(n, " requests")
	}
}

// TestBacklogReads: a server that takes no more of the heads of many requests until its answers
// were taken does not wait for ever: they are read all the same.
func TestBacklogReads(t *testing.T) {
	t.Parallel()
	asked := make(chan bool)
	s := dial(t, run(t), "", func(p *fakeServer) {
		<-asked
		p.send(http2.Headers, end|endHeaders, 1, ok) // and nothing was read
		<-asked
		p.drain()
	})
	done := make(chan error, 1)
	s.ls.Go(0, func(th *loop.Thread) {
		head := []byte("GET / HTTP/1.1\r\nHost: a\r\nX-A: " + strings.Repeat("x", 8<<10) + "\r\n\r\n")
		var all []*http2client.Stream
		for range 100 { // what the kernels take is some megabytes
			for s.Room() {
				st, _ := s.Stream(th, liveness)
				st.Open(head, true, 1<<10, false)
				all = append(all, st)
			}
			_ = th.Sleep(time.Millisecond)
		}
		asked <- true
		err := all[0].Await(20 * time.Second) // at 30 s the server, which takes nothing, is given up
		if h := all[0].Head(); err == nil && (h == nil || h.Status != 200) {
			err = errors.New("no answer")
		}
		for _, st := range all {
			st.Close()
		}
		close(asked)
		done <- err
	})
	must.Do(t, <-done)
}
