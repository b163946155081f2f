package http2client_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/internal/upstream/http2client"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// TestIdlePinged: a server that pings does not keep an idle connection.
func TestIdlePinged(t *testing.T) {
	t.Parallel()
	ls := run(t)
	goOn, bye := make(chan bool), make(chan frame, 1)
	s := dial(t, ls, "", func(p *fakeServer) {
		f, _ := p.await(http2.Headers)
		p.send(http2.Headers, end|endHeaders, f.Stream, ok)
		<-goOn
		p.send(http2.Ping, 0, 0, "12345678")
		p.await(http2.Ping)
		goOn <- true
		f, _ = p.await(http2.GoAway)
		bye <- f
	})
	if g := s.get(); g.status != 200 {
		t.Error(g)
	}
	ls.Skip(40 * time.Minute)
	goOn <- true
	<-goOn
	ls.Settle()
	ls.Skip(40 * time.Minute)
	if f := <-bye; f.Type != http2.GoAway {
		t.Error(f)
	}
	<-s.ended
}

// TestRapidCancel: a connection on which many requests were given up takes no more of them, before
// the server ends it; the others go on.
func TestRapidCancel(t *testing.T) {
	t.Parallel()
	ls := run(t)
	begun := make(chan bool)
	s := dial(t, ls, "", func(p *fakeServer) {
		first, _ := p.await(http2.Headers)
		begun <- true
		for range 100 {
			p.await(http2.RSTStream)
		}
		p.send(http2.Headers, endHeaders, first.Stream, ok)
		p.send(http2.Data, end, first.Stream, "hello")
		p.drain()
	})
	other := s.start("GET", "")
	<-begun
	canceled := make(chan int, 1)
	ls.Go(0, func(th *loop.Thread) {
		n := 0
		for ; n < 1000 && s.Room(); n++ {
			st, _ := s.Stream(th, liveness)
			st.Open([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), true, 1<<10, false)
			st.Close()
		}
		canceled <- n
	})
	if n := <-canceled; n != 100 {
		t.Error(n)
	}
	if g := <-other; g.body != "hello" || g.err != nil {
		t.Error(g)
	}
	<-s.ended
}

// TestBadBlock: fields that cannot be decoded are no head.
func TestBadBlock(t *testing.T) {
	t.Parallel()
	s := dial(t, run(t), "", func(p *fakeServer) {
		p.await(http2.Headers)
		p.send(http2.Headers, endHeaders, 1, ok+"\xff\xff\xff\x00")
		p.drain()
	})
	done := make(chan *http2client.Head, 1)
	s.ls.Go(0, func(th *loop.Thread) {
		st, _ := s.Stream(th, liveness)
		defer st.Close()
		st.Open([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), true, 1<<10, false)
		for st.Head() == nil {
			if _, err := st.Read(make([]byte, 1)); err != nil && err != stream.ErrWouldBlock {
				break
			}
			_ = st.Await(time.Minute)
		}
		done <- st.Head()
	})
	if h := <-done; h != nil {
		t.Error(h.Status, h.List)
	}
}
