package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// loadTransfer moves one body and looks at the server's memory all the while. A small one goes
// before it, twice: what a server allocates once is to be there.
func loadTransfer(j job) figures {
	if j.Delay > 0 {
		l := newLine(j.Addr, j.Delay, j.Bandwidth)
		defer l.Close()
		j.Addr = l.Addr().String()
	}
	j.move(1 << 20)
	j.move(1 << 20)
	m := newMeter(j.Group)
	before := must(anonymousMemory(m.pids))
	highest := before
	moved := make(chan error, 1)
	go func() {
		_, err := attempt(j.move, j.Size)
		moved <- err
	}()
	var f figures
	for f == nil {
		select {
		case err := <-moved:
			check(err)
			f = m.figures(mebi(j.Size))
		case <-time.After(10 * time.Millisecond):
		}
		highest = max(highest, must(anonymousMemory(m.pids)))
	}
	f["growth"] = mebi(highest - before)
	return f
}

// transferPiece is what a body repeats, every 16 bytes: whatever comes is compared from its place
// there.
var transferPiece = bytes.Repeat([]byte("0123456789abcdef"), 16<<10)

// move moves a body of n bytes, on a connection of its own.
func (j job) move(n int64) bool {
	if j.Streams > 0 {
		j.upload2(n)
		return true
	}
	conn := j.dial()
	defer conn.Close()
	if j.Secure {
		conn = tls.Client(conn, j.trust())
	}
	if j.Upload {
		j.ask(conn, http.MethodPut, j.Path, "Content-Length: "+strconv.FormatInt(n, 10)+"\r\n")
		for left := n; left > 0; left -= int64(len(transferPiece)) {
			must(conn.Write(transferPiece[:min(left, int64(len(transferPiece)))]))
		}
		if got := text(conn); got != strconv.FormatInt(n, 10) {
			failf("%.100q bytes have come of %d", got, n)
		}
		return true
	}
	j.ask(conn, http.MethodGet, j.Path+"?bytes="+strconv.FormatInt(n, 10), "")
	body := answer(conn).Body
	buf := make([]byte, len(transferPiece)-16)
	for came := int64(0); ; {
		k, err := body.Read(buf)
		if at := came % 16; !bytes.Equal(buf[:k], transferPiece[at:at+int64(k)]) {
			failf("wrong bytes after %d", came)
		}
		if came += int64(k); err == io.EOF && came == n {
			return true
		}
		if err != nil {
			failf("after %d bytes: %w", came, err)
		}
	}
}

// downloadNetHTTP answers with so many bytes as move expects.
func downloadNetHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.URL.Query().Get("bytes"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	for left := n; left > 0; left -= int64(len(transferPiece)) {
		if _, err := w.Write(transferPiece[:min(left, int64(len(transferPiece)))]); err != nil {
			return
		}
	}
}

// upload2 uploads a body of n bytes over HTTP/2, as fast as the windows allow.
func (j job) upload2(n int64) {
	w := j.wire2(j.trust2(), make([]byte, longestFrame))
	defer w.Close()
	for !w.settled {
		check(w.turn())
	}
	var mu sync.Mutex // of the connection but its socket
	room, ended, got := sync.NewCond(&mu), error(nil), []byte(nil)
	s := &stream2{
		take: func(p []byte) error { got = append(got, p...); return nil },
		end:  func() error { return io.EOF },
	}
	w.request(s, false, pairs(":method", http.MethodPut, ":scheme", "http", ":authority", j.Addr,
		":path", j.Path, "content-length", strconv.FormatInt(n, 10)))
	var reading sync.WaitGroup
	reading.Go(func() { // the windows grow while the other goroutine writes
		for ended == nil {
			k, err := w.Read(w.buf)
			mu.Lock()
			if err == nil {
				err = w.feed(w.buf[:k])
			}
			ended = err
			room.Broadcast()
			mu.Unlock()
		}
	})
	mu.Lock()
	for left, out := n, []byte(nil); ended == nil; {
		k := min(left, s.window, w.window, 4*longestFrame)
		if k > 0 {
			left -= k
			w.data(s, left == 0, transferPiece[:k])
		}
		if len(w.out) == 0 {
			room.Wait()
			continue
		}
		out, w.out = w.out, out[:0]
		mu.Unlock()
		_, err := w.Write(out)
		mu.Lock()
		if err != nil {
			ended = err
		}
	}
	mu.Unlock()
	w.SetReadDeadline(time.Now())
	reading.Wait()
	if !errors.Is(ended, io.EOF) || string(got) != strconv.FormatInt(n, 10) {
		failf("%.100q bytes have come of %d: %v", got, n, ended)
	}
}
