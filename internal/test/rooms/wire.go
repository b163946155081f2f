package rooms

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
)

// Wire is what lies between one node and the broker. It can be cut, and slowed down.
type Wire struct {
	t  testing.TB
	ln net.Listener

	mu    sync.Mutex
	to    string // address
	cut   bool
	rest  time.Duration
	tried int // connections that came while it was cut
	conns map[net.Conn]bool
	ended sync.WaitGroup

	before sync.Mutex // while ahead is called
	ahead  func()
}

// StartWire starts a wire to an address.
func StartWire(t testing.TB, to string) *Wire {
	ln := must.Listen(t)
	w := &Wire{t: t, ln: ln, to: to, conns: map[net.Conn]bool{}}
	w.ended.Go(func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			w.ended.Go(func() { w.serve(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		w.Cut(true)
		w.ended.Wait()
	})
	return w
}

func (w *Wire) serve(c net.Conn) {
	defer c.Close()
	w.mu.Lock()
	address := w.to
	w.mu.Unlock()
	up, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer up.Close()
	if !w.keep(c, up) {
		return
	}
	go func() { _, _ = io.Copy(up, asking{w, c}); up.Close() }()
	_, _ = io.Copy(c, slowed{w, up})
}

func (w *Wire) keep(conns ...net.Conn) bool {
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

// Cut cuts the wire, or mends it.
func (w *Wire) Cut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut = cut; cut {
		for c := range w.conns {
			c.Close()
		}
		clear(w.conns)
	}
}

// Move makes new connections lead to another address. Those that are open stay where they are.
func (w *Wire) Move(to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
}

// Attempts returns how many connections have come to nothing.
func (w *Wire) Attempts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tried
}

// Addr is what a node connects to.
func (w *Wire) Addr() string { return w.ln.Addr().String() }

// Slow makes the broker slow: what it says comes in pieces of 4 KiB at most, each so much later
// than the one before. 0 makes it as quick as it is.
func (w *Wire) Slow(rest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = rest
}

// Ahead has f called ahead of each piece of what the node says, before the broker gets that; nil:
// nothing is any more. When Ahead returns, no earlier f runs.
func (w *Wire) Ahead(f func()) {
	w.before.Lock()
	defer w.before.Unlock()
	w.ahead = f
}

// asking reads what the node says.
type asking struct {
	w *Wire
	net.Conn
}

func (a asking) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	a.w.before.Lock()
	defer a.w.before.Unlock()
	if n > 0 && a.w.ahead != nil {
		a.w.ahead()
	}
	return n, err
}

// slowed reads what a slow broker says.
type slowed struct {
	w *Wire
	net.Conn
}

func (s slowed) Read(p []byte) (int, error) {
	s.w.mu.Lock()
	rest := s.w.rest
	s.w.mu.Unlock()
	if rest > 0 {
		p = p[:min(len(p), 4<<10)]
		time.Sleep(rest)
	}
	return s.Conn.Read(p)
}
