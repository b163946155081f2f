package modtest

import (
	"bytes"
	"io"
	"testing"
)

// Allocs returns how many allocations the process makes for one request of a keep-alive connection.
// wire is the request as bytes; its answer must be the same every time, but for the Date.
func (s *Server) Allocs(t *testing.T, wire string) float64 {
	t.Helper()
	c := s.Dial()
	request := []byte(wire)
	send := func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
	}
	send()
	buffer := make([]byte, 256<<10)
	have, length := 0, 0
	for length == 0 {
		n, err := c.Read(buffer[have:])
		if err != nil {
			t.Fatalf("after %q: %v", buffer[:have], err)
		}
		have += n
		length = answerLength(buffer[:have])
	}
	if length > len(buffer) {
		t.Fatalf("an answer of %d bytes is too long for this", length)
	}
	if _, err := io.ReadFull(c, buffer[have:length]); err != nil {
		t.Fatal(err)
	}
	return testing.AllocsPerRun(500, func() {
		send()
		if _, err := io.ReadFull(c, buffer[:length]); err != nil {
			t.Fatal(err)
		}
	})
}

// answerLength returns the length of an answer with a Content-Length whose head is complete, or 0.
func answerLength(b []byte) int {
	head, _, ok := bytes.Cut(b, []byte("\r\n\r\n"))
	_, after, found := bytes.Cut(head, []byte("Content-Length: "))
	if !ok || !found {
		return 0
	}
	n := 0
	for _, c := range after {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
	}
	return len(head) + 4 + n
}
