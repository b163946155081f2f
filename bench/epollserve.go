package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// serveEpollEcho is the least that an event loop in Go can do for an echo: a callback for each
// descriptor, one buffer for all, and calls that go to the kernel raw.
func serveEpollEcho(ln net.Listener) error {
	r := newReactor(echoBuffer)
	r.lost, r.raw = func(*link) {}, true
	fd := own(ln.(*net.TCPListener))
	// Go has set it on no listener, from which accepted sockets would inherit it as the others have
	// it.
	check(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	return r.serve(fd, func(l *link) { l.take = func(p []byte) error { return r.write(l, p) } })
}

// A responder is the least that a FastCGI application can do, so that what is measured is the
// server before it: it answers a request in one write, at once or when it is told to, and keeps a
// connection where FCGI_KEEP_CONN asks for that.
type responder struct {
	*reactor
	held []held
}

// held is a request that waits for its answer.
type held struct {
	*link
	keep bool
}

// The responder's scripts. Of any other name is one that says hello.
const (
	holdScript    = appPrefix + "/hold.php"    // is answered when
	releaseScript = appPrefix + "/release.php" // is asked for
	heldScript    = appPrefix + "/held.php"    // tells how many wait
)

// responderCommand is `bench respond PATH`: it serves on a UNIX socket until it is killed.
func responderCommand(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: bench respond SOCKET")
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: args[0]})
	check(err)
	ln.SetUnlinkOnClose(false)
	check(os.Chmod(args[0], 0o666)) // nginx's workers, which are not root, connect too
	r := responder{reactor: newReactor(64 << 10)}
	r.lost = func(l *link) {
		r.held = slices.DeleteFunc(r.held, func(h held) bool { return h.link == l })
	}
	return r.serve(own(ln), func(l *link) {
		var part []byte // of a request that has not come whole
		l.take = func(p []byte) error {
			if len(part) > 0 {
				part = append(part, p...)
				p = part
			}
			length, keep, err := requestEnd(p)
			if length == 0 {
				part = append(part[:0], p...)
				return err
			}
			part = part[:0]
			return r.answerTo(held{l, keep}, p[:length])
		}
	})
}

// answerTo finds the script by its name anywhere among the parameters: the clients are our own.
func (r *responder) answerTo(h held, request []byte) error {
	switch {
	case bytes.Contains(request, []byte(holdScript)):
		r.held = append(r.held, h)
		return nil
	case bytes.Contains(request, []byte(heldScript)):
		return r.answer(h, strconv.Itoa(len(r.held)))
	case bytes.Contains(request, []byte(releaseScript)):
		for _, waiting := range r.held {
			if r.answer(waiting, hello) != nil {
				r.close(waiting.link)
			}
		}
		r.held = nil
	}
	return r.answer(h, hello)
}

// answer is far smaller than a socket's buffer.
func (r *responder) answer(h held, body string) error {
	err := r.write(h.link, appendAnswer(r.buf[:0], body))
	if err == nil && !h.keep {
		r.close(h.link)
	}
	return err
}

// Types of records, and their header's length (FastCGI Specification 1.0, sections 3.3 and 8).
const (
	fcgiBegin  = 1
	fcgiEnd    = 3
	fcgiStdin  = 5
	fcgiStdout = 6
	fcgiHeader = 8
)

// requestEnd is the length of the request that p begins with, which the empty record of STDIN ends;
// 0: it is not all there. keep is FCGI_KEEP_CONN.
func requestEnd(p []byte) (length int, keep bool, err error) {
	for at := 0; len(p)-at >= fcgiHeader; {
		header := p[at:]
		if header[0] != 1 {
			return 0, false, fmt.Errorf("version %d", header[0])
		}
		content := int(binary.BigEndian.Uint16(header[4:]))
		next := at + fcgiHeader + content + int(header[6])
		if next > len(p) {
			return 0, false, nil
		}
		switch header[1] {
		case fcgiBegin:
			keep = content == 8 && header[fcgiHeader+2]&1 != 0
		case fcgiStdin:
			if content == 0 {
				return next, keep, nil
			}
		}
		at = next
	}
	return 0, false, nil
}

func appendAnswer(p []byte, body string) []byte {
	p = append(p, 1, fcgiStdout, 0, 1, 0, 0, 0, 0)
	p = append(p, "Content-Type: text/plain\r\nContent-Length: "...)
	p = strconv.AppendInt(p, int64(len(body)), 10)
	p = append(p, "\r\n\r\n"...)
	p = append(p, body...)
	binary.BigEndian.PutUint16(p[4:], uint16(len(p)-fcgiHeader))
	p = append(p, 1, fcgiStdout, 0, 1, 0, 0, 0, 0)
	return append(p, 1, fcgiEnd, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
}
