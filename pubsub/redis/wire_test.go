package redis_test

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/must"
)

// wire is what lies between one node and the broker, and can be cut.
type wire struct {
	t  testing.TB
	ln net.Listener

	mu    sync.Mutex
	to    *broker.Broker
	cut   bool
	tried int // connections that came while it was cut
	conns map[net.Conn]bool
	ended sync.WaitGroup
}

func startWire(t testing.TB, b *broker.Broker) *wire {
	ln := must.Listen(t)
	w := &wire{t: t, ln: ln, to: b, conns: map[net.Conn]bool{}}
	w.ended.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			w.ended.Go(func() { w.serve(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		w.set(true)
		w.ended.Wait()
	})
	return w
}

func (w *wire) serve(c net.Conn) {
	defer c.Close()
	w.mu.Lock()
	address := fmt.Sprintf("127.0.0.1:%d", w.to.Port)
	w.mu.Unlock()
	up, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer up.Close()
	if !w.keep(c, up) {
		return
	}
	go func() { _, _ = io.Copy(up, c); up.Close() }()
	_, _ = io.Copy(c, up)
}

func (w *wire) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		w.conns[c] = true
	}
	if w.cut {
		w.tried++
	}
	return !w.cut
}

// set cuts the wire, or mends it.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut = cut; cut {
		for c := range w.conns {
			c.Close()
		}
		clear(w.conns)
	}
}

// move makes new connections lead to another broker. Those that are open stay where they are.
func (w *wire) move(to *broker.Broker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
}

// attempts returns how many connections have come to nothing.
func (w *wire) attempts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tried
}

func (w *wire) url() string { return "redis://" + w.ln.Addr().String() }
