package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

const verifyLimit = 10 * time.Second

// verifyWork asks a server for what is going to be measured, once or twice.
func verifyWork(s *server, w work) error {
	addr := s.addr
	switch w.kind {
	case beside:
		return verifyBeside(s, w)
	case echo:
		return verifyEcho(addr, len(w.body))
	case wsEcho:
		_, err := loadWSEcho(echoOptions{Addr: addr, Path: w.path, Conns: 1, Size: len(w.body), PIDs: []int{os.Getpid()}})
		return err
	case wsIdle, chat, brokered:
		return verifyChat(addr, w)
	case sleepers:
		_, err := sleeperOptions{Addr: addr, Path: w.path}.sleepOnce(bufio.NewReader(nil), time.Millisecond)
		return err
	case bulk:
		return verifyTransfer(addr, w)
	}
	return verify(addr, w)
}

// verify sends the work's request twice over one connection, pipelined when the work is, and compares every answer.
// A server that closes, answers short, or in the wrong order is not worth measuring.
func verify(addr string, w work) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(verifyLimit)); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	for turn := range 2 {
		if _, err := conn.Write(w.request(addr)); err != nil {
			return err
		}
		for i := range w.depth {
			if err := verifyAnswer(in, w); err != nil {
				return fmt.Errorf("GET %s, answer %d: %w", w.path, turn*w.depth+i+1, err)
			}
		}
	}
	if in.Buffered() > 0 {
		return errors.New("more bytes than the answers asked for")
	}
	return nil
}

func verifyAnswer(in *bufio.Reader, w work) error {
	resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodGet})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("status %s", resp.Status)
	case resp.Close:
		return errors.New("the connection does not stay open")
	case resp.ContentLength != int64(len(w.body)):
		return fmt.Errorf("Content-Length %d, want %d", resp.ContentLength, len(w.body))
	case !bytes.Equal(body, w.body):
		return fmt.Errorf("wrong body of %d bytes, begins with %.60q", len(body), body)
	case w.text && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain"):
		return fmt.Errorf("Content-Type %q, want text/plain", resp.Header.Get("Content-Type"))
	}
	for _, name := range []string{"Date", "Server", "Content-Type"} { // so that all write as many bytes
		if resp.Header.Get(name) == "" {
			return fmt.Errorf("no %s field", name)
		}
	}
	return nil
}
