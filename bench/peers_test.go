package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What ends at once says why. What was killed is gone.
func TestStart(t *testing.T) {
	s := startScript(t, "read x < <(sleep 60)")
	if err := s.kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(verifyLimit); s.kill() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) { // before, init has not waited for the script's child
			t.Fatal("killed again and again")
		}
	}
	s.Addr, s.program.Argv = freeAddress(), []string{"ls", "--no-such-option"}
	if err := s.start(); err == nil || !strings.Contains(err.Error(), "unrecognized option") {
		t.Error(err)
	}
}

func testEnvironment(t *testing.T) *environment {
	return &environment{ctx: t.Context(), dir: t.TempDir(), files: map[string]string{},
		serverCPU: unpinned}
}

// A server runs on the CPU that it is given, with its children.
func TestPinned(t *testing.T) {
	_, cpu := defaultCPUs()
	for _, row := range []struct {
		cpu  int
		want string
	}{{cpu, fmt.Sprintf("Cpus_allowed_list:\t%d\n", cpu)}, {unpinned, "Cpus_allowed_list:"}} {
		out, err := pinned(t.Context(), row.cpu, "sh", "-c", "cat /proc/self/status").Output()
		if err != nil || !strings.Contains(string(out), row.want) {
			t.Errorf("CPU %d: %v, %s", row.cpu, err, out)
		}
	}
}

func TestStop(t *testing.T) {
	for script, want := range map[string]string{
		"touch %s; read x": "",
		"trap 'echo gone wrong; exit 3' TERM; touch %s; read x & wait": "gone wrong",
		"sleep 60 & touch %s; exec sleep 60":                           "left a process behind",
	} {
		begun := filepath.Join(t.TempDir(), "begun")
		p := startScript(t, fmt.Sprintf(script, begun)+" < <(sleep 60)")
		p.program.Ends = strings.Contains(want, "wrong")
		for end := time.Now().Add(verifyLimit); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(begun); err == nil {
				break
			} else if time.Now().After(end) {
				t.Fatal(err)
			}
		}
		if err := p.stop(); want == "" && p.program.Ends && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", script, err, want)
		}
	}
}

// startScript starts a server that is a script; another one accepts connections for it.
func startScript(t *testing.T, script string) *server {
	s := &server{Dir: t.TempDir(), Addr: listen(t).Addr().String(), env: testEnvironment(t),
		cpu: unpinned, program: program{Argv: []string{"bash", "-c", script}}}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	return s
}
