package main

import (
	"net"
	"sync"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// proxy passes bytes on, or swallows them: it reads all and passes nothing on, like a network that
// is gone. A connection that has lost bytes passes nothing on any more in that direction.
type proxy struct {
	net.Listener
	mu         sync.Mutex
	swallowing direction
	accepted   int
}

type direction int

const (
	toServer direction = 1 << iota
	toClient
)

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{Listener: ln}
	var all sync.WaitGroup
	var mu sync.Mutex
	conns := make(map[net.Conn]bool)
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		conns[c] = true
	}
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range conns {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	all.Go(func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			up, err := net.Dial("tcp", target)
			if err != nil {
				c.Close()
				continue
			}
			p.mu.Lock()
			p.accepted++
			p.mu.Unlock()
			keep(c)
			keep(up)
			all.Go(func() { p.copy(up, c, toServer) })
			all.Go(func() { p.copy(c, up, toClient) })
		}
	})
	return p
}

func (p *proxy) copy(to, from net.Conn, d direction) {
	dead := false
	for buf := make([]byte, 16<<10); ; {
		n, err := from.Read(buf)
		p.mu.Lock()
		dead = dead || p.swallowing&d != 0
		p.mu.Unlock()
		if n > 0 && !dead {
			_, _ = to.Write(buf[:n])
		}
		if err != nil {
			if !dead {
				to.Close()
			}
			return
		}
	}
}

// count returns how many connections have come.
func (p *proxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// swallow makes the proxy swallow what goes in these directions, and pass on the rest.
func (p *proxy) swallow(d direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallowing = d
}
