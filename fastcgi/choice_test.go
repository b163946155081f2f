package fastcgi_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/handlers/modtest"
)

// TestLeastConnectionsByWeight: connections in use are divided as the weights are.
func TestLeastConnectionsByWeight(t *testing.T) {
	one, goOne := stepwise(t)
	three, goThree := stepwise(t)
	p := serve(t, []string{one.Address, three.Address + " weight=3"}, func(s *fastcgi.Settings) {
		s.Balance, s.ReadTimeout = "least_conn", fcgitest.Timeout*10
	})
	done := make(chan got)
	for i := range 8 {
		p.ask(fmt.Sprint(i), done)
		eventually(t, "it is asked", func() bool { return len(one.Requests())+len(three.Requests()) == i+1 })
	}
	if n, m := len(one.Requests()), len(three.Requests()); n != 2 || m != 6 {
		t.Errorf("%d and %d", n, m)
	}
	// Two are free at the one with less weight: it is its turn then.
	for range 2 {
		goOne <- true
		<-done
	}
	for i := range 2 {
		p.ask(fmt.Sprint(i), done)
		requests(t, one, 2+i+1)
	}
	for range 2 {
		goOne <- true
		<-done
	}
	for range 6 {
		goThree <- true
		<-done
	}
}

// TestKeptMakeRoom: connections that are kept count for max_conns, and are closed where their place is wanted.
func TestKeptMakeRoom(t *testing.T) {
	up, goOn := stepwise(t)
	pool, p := routes(t, up, true, 2, 1)
	done := make(chan got)
	for i := range 2 {
		p[0].ask(fmt.Sprint(i), done)
		requests(t, up, i+1)
	}
	for range 2 {
		goOn <- true
	}
	for range 2 {
		<-done
	}
	for i := range 3 { // a method that must not have a kept one, of a route that may have one in all
		go func() { done <- p[1].request("POST /x.php", nil, "body") }()
		requests(t, up, 2+i+1)
		if n := pool.Idle(); n != 0 {
			t.Error(n, " are kept beside the one in use")
		}
		goOn <- true
		if g := <-done; g.body != "hello" {
			t.Error(g)
		}
	}
	if n := up.Accepted(); n != 5 {
		t.Error(n, " connections")
	}
	if !up.Wait(fcgitest.Timeout, func(_, open, _ int) bool { return open == 0 }) {
		t.Error("an idle connection stays open")
	}
}

// TestOnUNIXSocket: a client without an address, as a server in front is, gets no address that scripts would trust.
func TestOnUNIXSocket(t *testing.T) {
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		r := c.Read()
		c.Reply(okHead + r.Get("REMOTE_ADDR") + " " + r.Get("SERVER_NAME") + ":" + r.Get("SERVER_PORT"))
	})
	p := route(t, registry(), "/", []string{up.Address}, nil, func(s *fastcgi.Settings) { s.CheckFile = false })
	p.Server = modtest.StartUNIX(t, "/", p.handler, coro.Direct)
	if g := p.get("/x.php"); g.body != "unix: test.example:80" {
		t.Errorf("%+v", g)
	}
}
