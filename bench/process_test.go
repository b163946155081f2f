package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// What it has acknowledged is there when it comes back from being killed, at the same address.
func TestBroker(t *testing.T) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("LWANGO_CI") == "1" {
			t.Fatal(err)
		}
		t.Skip("redis-server is not installed")
	}
	env := &environment{programs: map[string]string{"redis": program}, settings: settings{serverCPU: unpinned}}
	dir, addr := t.TempDir(), must(freeAddress())
	b, err := startBroker(t.Context(), env, dir, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { b.kill() }()
	if err := askBroker(addr, "SET a 1", "+OK"); err != nil {
		t.Fatal(err)
	}
	if err := b.kill(); err != nil {
		t.Fatal(err)
	}
	if askBroker(addr, "PING", "+PONG") == nil {
		t.Error("killed, it answers")
	}
	if b, err = startBroker(t.Context(), env, dir, addr); err != nil {
		t.Fatal(err)
	}
	if err := askBroker(addr, "APPEND a 2", ":2"); err != nil {
		t.Error(err)
	}
	if err := b.kill(); err != nil {
		t.Error(err)
	}
	if err := b.kill(); err == nil {
		t.Error("killed twice")
	}

	// What ends at once says why.
	env.programs["redis"] = "/bin/ls"
	if _, err := startBroker(t.Context(), env, dir, addr); err == nil || !strings.Contains(err.Error(), "unrecognized option") {
		t.Error(err)
	}
}

// A server runs on the CPU that it is given, with its children.
func TestPinned(t *testing.T) {
	_, cpu := defaultCPUs()
	for _, row := range []struct {
		cpu  int
		want string
	}{{cpu, fmt.Sprintf("Cpus_allowed_list:\t%d\n", cpu)}, {unpinned, "Cpus_allowed_list:"}} {
		out, err := run(t.Context(), row.cpu, "sh", "-c", "cat /proc/self/status")
		if err != nil || !strings.Contains(string(out), row.want) {
			t.Errorf("CPU %d: %v, %s", row.cpu, err, out)
		}
	}
}

func TestStop(t *testing.T) {
	for script, want := range map[string]string{
		"read x": "",
		"trap 'echo gone wrong; exit 3' TERM; echo; read x & wait": "gone wrong",
		"sleep 60 & exec sleep 60":                                 "left a process behind",
	} {
		p, err := start(t.Context(), command{argv: []string{"bash", "-c", script + " < <(sleep 60)"}, dir: t.TempDir(), cpu: unpinned, ask: func() error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		p.ends = strings.Contains(want, "wrong")
		time.Sleep(300 * time.Millisecond)
		if err := p.stop(); want == "" && p.ends && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", script, err, want)
		}
	}
}
