package main

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"
)

// loadTransfer moves one body and looks at the server's memory all the while. A small one goes
// before it, twice: what a server allocates once is to be there.
func loadTransfer(j job) figures {
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
	conn := j.dial()
	defer conn.Close()
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
