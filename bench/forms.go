package main

import (
	"net/http"
	"strconv"
	"time"
)

// A form of one file, with what is before and behind it.
const (
	formFields = "Content-Type: multipart/form-data; boundary=--between\r\n"
	formBefore = "----between\r\nContent-Disposition: form-data; name=\"file\"; " +
		"filename=\"large.bin\"\r\n" +
		"Content-Type: application/octet-stream\r\n\r\n"
	formBehind = "\r\n----between--\r\n"
)

// loadForms sends forms at a fixed rate, and compares what the server says of their files. A form
// that is due while the one before is on its way follows that at once.
func loadForms(j job) figures {
	every := time.Duration(float64(j.Conns) / j.Rate * float64(time.Second))
	ended, sent, start := make(chan error), 0, time.Now()
	for i := range j.Conns {
		go func() {
			n, err := attempt(func(j job) int { return j.sendForms(i, every) }, j)
			sent += n // one thread does everything
			ended <- err
		}()
	}
	for range j.Conns {
		check(<-ended)
	}
	return figures{"forms": float64(sent) / time.Since(start).Seconds()}
}

func (j job) sendForms(i int, every time.Duration) (n int) {
	conn := j.dial()
	defer conn.Close()
	length := len(formBefore) + int(j.Size) + len(formBehind)
	start := time.Now()
	for next := every * time.Duration(i) / time.Duration(j.Conns); next < j.Duration; next += every {
		time.Sleep(next - time.Since(start))
		j.ask(conn, http.MethodPost, j.Path, formFields+"Content-Length: "+strconv.Itoa(length)+"\r\n")
		must(conn.Write([]byte(formBefore)))
		for left := j.Size; left > 0; left -= int64(len(transferPiece)) {
			must(conn.Write(transferPiece[:min(left, int64(len(transferPiece)))]))
		}
		must(conn.Write([]byte(formBehind)))
		if got := text(conn); got != strconv.FormatInt(j.Size, 10) {
			failf("%.100q bytes of a file have come, of %d", got, j.Size)
		}
		n++
	}
	return n
}
