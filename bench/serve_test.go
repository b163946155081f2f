package main

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/bench/tasks"
)

// ownGroup has this process alone, which is server and client: go test has a group with others.
var ownGroup = func() int {
	check(syscall.Setpgid(0, 0))
	return syscall.Getpgrp()
}()

// listen is for a server that is given its listener.
func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() }) // before, a collection of garbage may close it
	return ln
}

func echoOf(addr string) job {
	return job{Addr: addr, load: load{Conns: 3, Size: 1 << 10, Depth: 1}, Patience: verifyLimit,
		timing: timing{Warmup: 10 * time.Millisecond, Duration: 50 * time.Millisecond}, Group: ownGroup}
}

func TestEchoServers(t *testing.T) {
	for _, name := range []string{"goecho", "gnetecho", "gnetws"} {
		t.Run(name, func(t *testing.T) {
			addr := freeAddress()
			go attempt(serveCommand, []string{name, addr})
			for end := time.Now().Add(verifyLimit); ; time.Sleep(time.Millisecond) {
				if conn, err := net.Dial("tcp", addr); err == nil {
					conn.Close()
					break
				} else if time.Now().After(end) {
					t.Fatal(err)
				}
			}
			j := echoOf(addr)
			if name == "gnetws" {
				j.Path, j.Size = tasks.EchoPath, 125
			}
			f, err := attempt(loadLoop, j)
			if err != nil {
				t.Fatal(err)
			}
			if f["perSecond"] <= 0 || f["cpu"] <= 0 || f["client"] <= 0 || f["both"] < f["cpu"] {
				t.Errorf("%+v", f)
			}
			// The server outlives its connections.
			if _, err := attempt(loadLoop, j); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// badEcho answers the n-th read with what change makes of it.
func badEcho(t *testing.T, n int, change func(p []byte) []byte) string {
	ln := listen(t)
	go func() {
		for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
			go func() {
				defer conn.Close()
				buf := make([]byte, 64<<10)
				for i := 1; ; i++ {
					got, err := conn.Read(buf)
					if err != nil {
						return
					}
					p := buf[:got]
					if i >= n {
						p = change(p)
					}
					if _, err := conn.Write(p); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

func TestEchoNoticesWhatIsWrong(t *testing.T) {
	var last []byte
	rows := []struct {
		name   string
		change func(p []byte) []byte
		want   string
	}{
		{"one bit", func(p []byte) []byte { p[len(p)-1] ^= 1; return p }, "other bytes"},
		{"more", func(p []byte) []byte { return append(p, 'x') }, "1025 bytes came back of 1024"},
		{"twice", func(p []byte) []byte { return append(p, p...) }, "came back"},
		{"the first of its messages for ever", func(p []byte) []byte {
			if last == nil {
				last = append(last, p...)
			}
			return last
		}, "other bytes"},
	}
	for _, row := range rows {
		options := echoOf(badEcho(t, 2, row.change))
		options.Conns = 1
		if _, err := attempt(loadLoop, options); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
	silent := echoOf(badEcho(t, 1, func([]byte) []byte { return nil }))
	silent.Patience = 100 * time.Millisecond
	if _, err := attempt(loadLoop, silent); err == nil ||
		!strings.Contains(err.Error(), "nothing came back") {
		t.Errorf("silent: %v", err)
	}
}

// Who serves some of the connections only is not quick, but wrong.
func TestEchoServesAll(t *testing.T) {
	ln := listen(t)
	go func() {
		first, err := ln.Accept()
		if err != nil {
			return
		}
		buf := make([]byte, echoBuffer)
		for {
			n, err := first.Read(buf)
			if err != nil {
				return
			}
			first.Write(buf[:n])
		}
	}()
	j := echoOf(ln.Addr().String())
	j.Patience = 3 * time.Second
	if _, err := attempt(loadLoop, j); err == nil ||
		!strings.Contains(err.Error(), "connection 2 of 3: nothing came back") {
		t.Errorf("%v, want a complaint about the second connection", err)
	}
}

func TestEchoed(t *testing.T) {
	want := pattern(10)
	for cut := range want {
		rest, err := echoed(want[:cut], want)
		if err == nil {
			rest, err = echoed(want[cut:], rest)
		}
		if err != nil || len(rest) != 0 {
			t.Errorf("cut at %d: %d left, %v", cut, len(rest), err)
		}
	}
	if _, err := echoed(want, want[:9]); err == nil {
		t.Error("a byte too many passed")
	}
	if _, err := echoed(want[1:3], want); err == nil {
		t.Error("a wrong place passed")
	}
}

// Messages that are under way at the same time differ.
func TestEchoMessagesDiffer(t *testing.T) {
	source := letters(echoSource + 64)
	seen := map[string]bool{}
	for sent := range echoSource {
		at := messageAt(sent)
		seen[string(source[at:at+64])] = true
	}
	if len(seen) != echoSource {
		t.Errorf("%d different messages, want %d", len(seen), echoSource)
	}
}
