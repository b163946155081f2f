package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/program"
)

// crowdMember is a socket that only listens, and knows who is there. It does with little what 2,000
// of them do in a test.
type crowdMember struct {
	net.Conn
	r     *bufio.Reader
	here  map[string]bool
	bytes int64
}

// newCrowdMember connects from the n-th of the machine's own addresses.
func newCrowdMember(s *program.Server, n byte, name string) (*crowdMember, error) {
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, n)}}
	c, err := from.Dial("tcp", s.Address)
	if err != nil {
		return nil, err
	}
	m := &crowdMember{Conn: c, r: bufio.NewReader(c), here: make(map[string]bool)}
	fmt.Fprintf(c, "GET /ws-chat?room=crowd&name=%s HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"+
		"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", name)
	for {
		line, err := m.r.ReadString('\n')
		if err != nil || line == "\r\n" {
			return m, err
		}
	}
}

// read takes a frame in.
func (m *crowdMember) read() error {
	head, err := m.r.Peek(2)
	if err != nil {
		return err
	}
	kind, n, skip := head[0]&0xf, int(head[1]), 2
	switch n {
	case 126:
		head, err = m.r.Peek(4)
		if err == nil {
			n, skip = int(head[2])<<8|int(head[3]), 4
		}
	case 127:
		head, err = m.r.Peek(10)
		if err == nil {
			n, skip = int(head[6])<<24|int(head[7])<<16|int(head[8])<<8|int(head[9]), 10
		}
	}
	if err != nil {
		return err
	}
	m.r.Discard(skip)
	m.bytes += int64(n)
	text := make([]byte, n)
	if _, err := io.ReadFull(m.r, text); err != nil {
		return err
	}
	switch kind {
	case 8:
		return io.EOF
	case 9: // a ping, to one that has been silent for long
		_, err := m.Write(append([]byte{0x8a, 0x80 | byte(n), 0, 0, 0, 0}, text...))
		return err
	}
	if bytes.Contains(text[:min(n, 20)], []byte(`"history"`)) {
		return nil
	}
	var f notice
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	switch f.Type {
	case "presence":
		clear(m.here)
		fallthrough
	case "join":
		for _, name := range f.Names {
			m.here[name] = true
		}
	case "leave":
		for _, name := range f.Names {
			delete(m.here, name)
		}
	}
	return nil
}

// A room fills with 2,000 people who come as fast as they can, and each soon knows all others.
func TestFill(t *testing.T) {
	people := 200
	if ci.Enabled() {
		people = 2000
	}
	s := program.Start(t, "-per-address", "0")
	began := time.Now()
	var all, joined sync.WaitGroup
	var sum, know, failed atomic.Int64
	next := make(chan string)
	for i := range 16 {
		joined.Go(func() {
			for name := range next {
				m, err := newCrowdMember(s, byte(i), name)
				if err != nil {
					t.Error(err)
					failed.Add(1)
					continue
				}
				all.Go(func() {
					defer m.Close()
					for len(m.here) < people {
						_ = m.SetReadDeadline(time.Now().Add(patience))
						if err := m.read(); err != nil {
							t.Errorf("%s knows %d: %v", name, len(m.here), err)
							failed.Add(1)
							return
						}
					}
					sum.Add(m.bytes)
					know.Add(1)
					_ = m.SetReadDeadline(time.Time{})
					for m.read() == nil && know.Load() < int64(people) {
					}
				})
			}
		})
	}
	for i := range people {
		next <- fmt.Sprintf("Person%04d%s", i, strings.Repeat("x", 4))
	}
	close(next)
	joined.Wait()
	t.Logf("%d have joined after %v", people, time.Since(began))
	for know.Load()+failed.Load() < int64(people) { // each fails that hears nothing for long
		time.Sleep(10 * time.Millisecond)
	}
	// Each name comes to each member once, in the list or as news, and a few bytes besides.
	each, cpu := sum.Load()/int64(people), s.CPU(t)
	if one := int64(len(`"Person0000xxxx",`)); each > 2*one*int64(people) {
		t.Errorf("%d bytes for each", each)
	}
	if cpu > time.Duration(people)*2*time.Millisecond {
		t.Errorf("the server has taken %v of the processor", cpu)
	}
	t.Logf("all know all others after %v; %d bytes for each; %v of the processor",
		time.Since(began), each, cpu)
	s.End(t, syscall.SIGTERM)
	all.Wait()
}
