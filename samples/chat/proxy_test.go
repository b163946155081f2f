package main

import (
	"net"
	"sync"
	"testing"
)

// proxy passes connections on, or swallows them: then it takes all that comes, and nothing comes of it, as where a
// network is gone. A connection that has lost something so has lost everything after it, too.
type proxy struct {
	net.Listener
	mu         sync.Mutex
	swallowing bool
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", target)
			if err != nil {
				c.Close()
				continue
			}
			keep(c)
			keep(up)
			dead := new(bool) // under p.mu
			all.Go(func() { p.copy(up, c, dead) })
			all.Go(func() { p.copy(c, up, dead) })
		}
	})
	return p
}

func (p *proxy) copy(to, from net.Conn, dead *bool) {
	defer func() {
		if !p.swallows(dead) {
			to.Close()
		}
	}()
	for buf := make([]byte, 16<<10); ; {
		n, err := from.Read(buf)
		if !p.swallows(dead) && n > 0 {
			_, _ = to.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) swallows(dead *bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	*dead = *dead || p.swallowing
	return *dead
}

func (p *proxy) swallow(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallowing = on
}
