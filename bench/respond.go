package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"regexp"

	"github.com/lwango/lwango/bench/tasks"
)

// serveResponder is the least that a FastCGI application can do, so that what is measured is the
// server before it: it answers a request in one write, with hello or, after it has slept for the ms
// milliseconds of a query, as every server of the benchmark does then. It keeps a connection where
// FCGI_KEEP_CONN asks for that.
func serveResponder(ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			in := bufio.NewReader(conn)
			for keep := true; keep; {
				var ms, body string
				if ms, keep, err = readRequest(in); err != nil {
					return
				}
				if body = hello; ms != "" {
					body, err = tasks.Sleep(ms, tasks.Nap)
				}
				if _, failed := conn.Write(appendAnswer(nil, body)); err != nil || failed != nil {
					return
				}
			}
		}()
	}
}

// Types of records, and their header's length (FastCGI Specification 1.0, sections 3.3 and 8).
const (
	fcgiBegin  = 1
	fcgiEnd    = 3
	fcgiParams = 4
	fcgiStdin  = 5
	fcgiStdout = 6
	fcgiHeader = 8
)

// sleepQuery stands before the next parameter's length, which is no digit.
var sleepQuery = regexp.MustCompile(`\?ms=([0-9]+)`)

// readRequest reads a request up to the empty record of STDIN. It finds a query for sleep anywhere
// among the parameters: the clients are our own, and their records are shorter than the reader's
// buffer. keep is FCGI_KEEP_CONN.
func readRequest(in *bufio.Reader) (ms string, keep bool, err error) {
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
		switch {
		case record[1] == fcgiBegin && content == 8:
			keep = record[fcgiHeader+2]&1 != 0
		case record[1] == fcgiParams && bytes.Contains(record, []byte("?ms=")):
			ms = string(sleepQuery.FindSubmatch(record)[1])
		}
		in.Discard(len(record))
		if record[1] == fcgiStdin && content == 0 {
			return ms, keep, nil
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
