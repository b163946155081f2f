package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// A responder is the least that a FastCGI application can do, so that what is measured is the
// server before it: it answers a request in one write, at once or when it is told to, and keeps a
// connection where FCGI_KEEP_CONN asks for that.
type responder struct {
	mu   sync.Mutex
	held map[net.Conn]struct{} // connections whose requests wait for their answers
}

// The responder's scripts. Of any other name is one that says hello.
const (
	holdScript    = appPrefix + "/hold.php"    // is answered when
	releaseScript = appPrefix + "/release.php" // is asked for
	heldScript    = appPrefix + "/held.php"    // tells how many wait
)

func serveResponder(ln net.Listener) error {
	r := responder{held: map[net.Conn]struct{}{}}
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go r.serve(conn)
	}
}

func (r *responder) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for keep := true; keep; {
		script, kept, err := readRequest(in)
		if err != nil {
			return
		}
		keep = kept
		body := hello
		switch script {
		case holdScript:
			if !r.hold(conn) {
				return
			}
		case heldScript:
			r.mu.Lock()
			body = strconv.Itoa(len(r.held))
			r.mu.Unlock()
		case releaseScript:
			r.mu.Lock()
			for held := range r.held {
				held.SetReadDeadline(time.Unix(1, 0))
			}
			clear(r.held)
			r.mu.Unlock()
		}
		if _, err := conn.Write(appendAnswer(nil, body)); err != nil {
			return
		}
	}
}

// hold returns when the request is to be answered: then a read deadline has passed, which is set for
// that. false: the server has left.
func (r *responder) hold(conn net.Conn) bool {
	r.mu.Lock()
	r.held[conn] = struct{}{}
	r.mu.Unlock()
	_, err := conn.Read(make([]byte, 1))
	conn.SetReadDeadline(time.Time{})
	r.mu.Lock()
	delete(r.held, conn)
	r.mu.Unlock()
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// Types of records, and their header's length (FastCGI Specification 1.0, sections 3.3 and 8).
const (
	fcgiBegin  = 1
	fcgiEnd    = 3
	fcgiStdin  = 5
	fcgiStdout = 6
	fcgiHeader = 8
)

// readRequest reads a request up to the empty record of STDIN. It finds the script by its name
// anywhere among the parameters: the clients are our own, and their records are shorter than the
// reader's buffer. keep is FCGI_KEEP_CONN.
func readRequest(in *bufio.Reader) (script string, keep bool, err error) {
	for {
		record, err := in.Peek(fcgiHeader)
		if err != nil {
			return "", false, err
		}
		if record[0] != 1 {
			return "", false, fmt.Errorf("version %d", record[0])
		}
		content := int(binary.BigEndian.Uint16(record[4:]))
		if record, err = in.Peek(fcgiHeader + content + int(record[6])); err != nil {
			return "", false, err
		}
		for _, name := range []string{holdScript, releaseScript, heldScript} {
			if bytes.Contains(record, []byte(name)) {
				script = name
			}
		}
		if record[1] == fcgiBegin && content == 8 {
			keep = record[fcgiHeader+2]&1 != 0
		}
		in.Discard(len(record))
		if record[1] == fcgiStdin && content == 0 {
			return script, keep, nil
		}
	}
}

func appendAnswer(p []byte, body string) []byte {
	p = append(p, 1, fcgiStdout, 0, 1, 0, 0, 0, 0)
	p = fmt.Appendf(p, "Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	binary.BigEndian.PutUint16(p[4:], uint16(len(p)-fcgiHeader))
	p = append(p, 1, fcgiStdout, 0, 1, 0, 0, 0, 0)
	return append(p, 1, fcgiEnd, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
}
