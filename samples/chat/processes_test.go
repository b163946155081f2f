package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/sampletest"
)

// broker is a Redis that can be killed and started again.
type broker struct {
	*testing.T
	folder, port string
	cmd          *exec.Cmd
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("LWANGO_CI") != "" {
			t.Fatal("redis-server is not installed (Debian's package redis-server)")
		}
		t.Skip("redis-server is not installed (Debian's package redis-server)")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	ln.Close()
	b := &broker{T: t, folder: t.TempDir(), port: port}
	b.start()
	t.Cleanup(b.kill)
	return b
}

func (b *broker) start() {
	b.Helper()
	b.cmd = exec.Command("redis-server", "--port", b.port, "--bind", "127.0.0.1", "--dir", b.folder, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	if err := b.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", "127.0.0.1:"+b.port); err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			b.Fatal("redis-server does not start")
		}
	}
}

func (b *broker) kill() {
	if b.cmd != nil {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
		b.cmd = nil
	}
}

// server starts a process that shares its rooms.
func (b *broker) server() *sampletest.Server {
	b.Helper()
	config := filepath.Join(b.TempDir(), "lwango.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, "[pubsub]\nurl = \"redis://127.0.0.1:%s\"\n", b.port), 0o600); err != nil {
		b.Fatal(err)
	}
	return sampletest.Start(b.T, "-c", config)
}

// Two processes share a room, and go on alone while there is no broker between them.
func TestProcesses(t *testing.T) {
	b := newBroker(t)
	one, two := b.server(), b.server()
	ann, _ := join(t, one, "r", "Ann")
	ann.say("first")
	ann.hears("Ann", "first")
	bob, messages := join(t, two, "r", "Bob")
	for len(messages) == 0 { // the first one in this process has to wait for it
		messages = bob.messages(bob.next("history"))
	}
	if len(messages) != 1 || messages[0].Text != "first" {
		t.Errorf("history: %+v", messages)
	}
	ann.sees("Ann", "Bob")
	bob.sees("Ann", "Bob")
	bob.say(`{"type":"typing"}`)
	if n := ann.next("typing"); n.Name != "Bob" {
		t.Errorf("got %+v", n)
	}
	bob.say("second")
	ann.hears("Bob", "second")
	bob.hears("Bob", "second")
	cat, messages := join(t, two, "r", "Cat")
	if len(messages) != 2 || messages[1].Text != "second" {
		t.Errorf("history: %+v", messages)
	}
	ann.sees("Ann", "Bob", "Cat")
	cat.vanish()
	ann.sees("Ann", "Bob")

	b.kill()
	ann.next("notice")
	bob.next("notice")
	ann.say("meanwhile")
	ann.hears("Ann", "meanwhile") // at once
	b.start()
	ann.next("notice")
	bob.hears("Ann", "meanwhile")
	bob.say("there you are")
	ann.hears("Bob", "there you are")
	bob.Conn.Close()
	ann.sees("Ann")
}
