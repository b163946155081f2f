package http2client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// TestPing: a server that is silent is asked whether it is there, and if it does not answer, the
// requests fail.
func TestPing(t *testing.T) {
	t.Parallel()
	ls := run(t)
	pinged := make(chan bool, 1)
	s := dial(t, ls, "", func(p *fakeServer) {
		p.await(http2.Headers)
		pinged <- true
		f, _ := p.await(http2.Ping)
		p.send(http2.Ping, http2.Ack, 0, string(f.payload))
		p.send(http2.Headers, endHeaders, 1, ok)
		p.send(http2.Data, 0, 1, "hello")
		pinged <- true
		p.await(http2.Ping)
		pinged <- true
		p.drain()
	})
	done := s.start("GET", "")
	<-pinged
	ls.Skip(12 * time.Second)
	<-pinged
	ls.Settle()
	ls.Skip(12 * time.Second)
	<-pinged
	ls.Skip(12 * time.Second)
	if g := <-done; g.status != 200 || g.err == nil || !strings.Contains(g.err.Error(), "dead") {
		t.Error(g)
	}
	<-s.ended
}

// TestIdle: a connection without a request ends after its time, with GOAWAY.
func TestIdle(t *testing.T) {
	t.Parallel()
	ls := run(t)
	bye := make(chan frame, 1)
	s := dial(t, ls, "", func(p *fakeServer) {
		f, _ := p.await(http2.Headers)
		p.send(http2.Headers, end|endHeaders, f.Stream, ok)
		f, _ = p.await(http2.GoAway)
		bye <- f
	})
	if g := s.get(); g.status != 200 {
		t.Error(g)
	}
	ls.Skip(2 * time.Hour)
	if f := <-bye; f.Type != http2.GoAway {
		t.Error(f)
	}
	<-s.ended
}

// TestLimits: a connection takes no more streams than the server says.
func TestLimits(t *testing.T) {
	t.Parallel()
	ls := run(t)
	s := dial(t, ls, setting(http2.MaxConcurrentStreams, 1), func(p *fakeServer) {
		f, _ := p.await(http2.Headers)
		p.send(http2.Headers, end|endHeaders, f.Stream, ok)
		p.drain()
	})
	if g := s.get(); g.status != 200 {
		t.Error(g)
	}
	done := make(chan [3]bool, 1)
	ls.Go(0, func(th *loop.Thread) {
		var r [3]bool
		r[0] = s.Room()
		st, reused := s.Stream(th, liveness)
		r[1], r[2] = s.Room(), reused
		st.Close()
		done <- r
	})
	if r := <-done; r != [3]bool{true, false, true} {
		t.Error(r)
	}
}

// TestNeverReads: a server that grants all windows and takes nothing loses the connection after a
// while.
func TestNeverReads(t *testing.T) {
	t.Parallel()
	ls := run(t)
	begun, over := make(chan bool), make(chan bool)
	s := dial(t, ls, setting(http2.InitialWindowSize, 1<<30), func(p *fakeServer) {
		p.send(http2.WindowUpdate, 0, 0, uint32s(1<<30))
		p.await(http2.Headers)
		begun <- true
		<-over
	})
	defer close(over)
	done := s.start("POST", strings.Repeat("x", 32<<20))
	<-begun
	for {
		select {
		case g := <-done:
			if g.err == nil || !strings.Contains(g.err.Error(), "dead") {
				t.Error(g)
			}
			<-s.ended
			return
		default: // the kernel may still find room for some bytes
			ls.Skip(31 * time.Second)
		}
	}
}

// TestSlowBlock: fields that do not come to their end do not hold up the connection for long,
// though they come.
func TestSlowBlock(t *testing.T) {
	t.Parallel()
	ls := run(t)
	begun, goOn := make(chan bool), make(chan bool)
	s := dial(t, ls, "", func(p *fakeServer) {
		p.await(http2.Headers)
		p.send(http2.Headers, 0, 1, ok)
		begun <- true
		<-goOn
		p.send(http2.Continuation, 0, 1, block("a", "b"))
		begun <- true
		p.drain()
	})
	done := s.start("GET", "")
	<-begun
	ls.Skip(6 * time.Second)
	goOn <- true
	<-begun
	ls.Skip(6 * time.Second)
	if g := <-done; g.err == nil || !strings.Contains(g.err.Error(), "dead") {
		t.Error(g)
	}
}
