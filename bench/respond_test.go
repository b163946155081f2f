package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// fcgiRequest is a request as a server sends it, with a body.
func fcgiRequest(keep byte, script, body string) []byte {
	record := func(p []byte, kind byte, content string) []byte {
		return append(append(p, 1, kind, 0, 1, byte(len(content)>>8), byte(len(content)), 3, 0),
			content+"pad"...)
	}
	p := record(nil, fcgiBegin, "\x00\x01"+string(keep)+"\x00\x00\x00\x00\x00")
	p = record(p, 4, "\x0b"+string(byte(len(script)))+"SCRIPT_NAME"+script)
	p = record(p, 4, "")
	if body != "" {
		p = record(p, fcgiStdin, body)
	}
	return record(p, fcgiStdin, "")
}

func TestReadRequest(t *testing.T) {
	whole := fcgiRequest(1, "/app/sleep.php?ms=27", "some body")
	for i := range whole {
		in := bufio.NewReader(iotest.OneByteReader(bytes.NewReader(whole[:i])))
		if _, _, err := readRequest(in); err != io.EOF {
			t.Fatalf("%d of %d bytes: %v", i, len(whole), err)
		}
	}
	in := bufio.NewReader(bytes.NewReader(append(whole, fcgiRequest(0, "/app/hello.php", "")...)))
	if script, keep, err := readRequest(in); script != "27" || !keep || err != nil {
		t.Errorf("%q, %v, %v", script, keep, err)
	}
	if script, keep, err := readRequest(in); script != "" || keep || err != nil {
		t.Errorf("%q, kept %v without FCGI_KEEP_CONN, %v", script, keep, err)
	}
	if _, _, err := readRequest(
		bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\n\r\n"))); err == nil {
		t.Error("HTTP passed for FastCGI")
	}
}

// startResponder starts one that ends with the test's process.
func startResponder(t *testing.T) (dial func() net.Conn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	go attempt(serveCommand, []string{"responder", path})
	return func() net.Conn {
		t.Helper()
		for end := time.Now().Add(verifyLimit); ; time.Sleep(time.Millisecond) {
			conn, err := net.Dial("unix", path)
			if err == nil {
				conn.SetDeadline(end)
				t.Cleanup(func() { conn.Close() })
				return conn
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
}

func TestResponder(t *testing.T) {
	dial := startResponder(t)
	want := appendAnswer(nil, hello)
	kept := dial()
	for range 3 { // in pieces, which it must put together
		for piece := range slices.Chunk(fcgiRequest(1, "/app/hello.php", "body"), 13) {
			kept.Write(piece)
			time.Sleep(100 * time.Microsecond)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(kept, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	once := dial()
	once.Write(fcgiRequest(0, "/app/hello.php", ""))
	if got, err := io.ReadAll(once); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

// It sleeps for the milliseconds of the query, and several sleep at one time.
func TestResponderSleeps(t *testing.T) {
	dial := startResponder(t)
	start := time.Now()
	var conns []net.Conn
	for range 3 {
		conn := dial()
		conn.Write(fcgiRequest(0, "/app/sleep.php?ms=1500", ""))
		conns = append(conns, conn)
	}
	sum := 0
	for i, conn := range conns {
		got, err := io.ReadAll(conn)
		_, body, _ := strings.Cut(string(got), "\r\n\r\n")
		var late, asleep int
		if n, _ := fmt.Sscan(body, &late, &asleep); n != 2 || err != nil {
			t.Errorf("answer %d: %q, %v", i+1, got, err)
		}
		sum += asleep
	}
	if sum != 1+2+3 {
		t.Errorf("in all %d slept just before the three woke, want 3, 2 and 1", sum)
	}
	if took := time.Since(start); took < 1500*time.Millisecond {
		t.Errorf("all answered after %v", took)
	}
}
