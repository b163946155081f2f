package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBroker needs this test's binary to be the bench's: pin is a subcommand of it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "pin" {
		if err := pinCommand(os.Args[2:]); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// What it has acknowledged is there when it comes back from being killed, at the same address.
func TestBroker(t *testing.T) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("LWANGO_CI") == "1" {
			t.Fatal(err)
		}
		t.Skip("redis-server is not installed")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := startBroker(t.Context(), &environment{self: self, redis: program, dir: t.TempDir(), serverCPU: unpinned})
	if err != nil {
		t.Fatal(err)
	}
	defer b.kill()
	if err := b.ask("SET a 1", "+OK"); err != nil {
		t.Fatal(err)
	}
	if err := b.kill(); err != nil {
		t.Fatal(err)
	}
	if b.ask("PING", "+PONG") == nil {
		t.Error("killed, it answers")
	}
	if err := b.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.ask("APPEND a 2", ":2"); err != nil {
		t.Error(err)
	}
	if err := b.kill(); err != nil {
		t.Error(err)
	}
	if err := b.kill(); err != nil {
		t.Errorf("killed twice: %v", err)
	}

	// What ends at once says why.
	b.dir = filepath.Join(b.dir, "missing")
	if err := b.start(t.Context()); err == nil || !strings.Contains(err.Error(), "No such file") {
		t.Error(err)
	}
}
