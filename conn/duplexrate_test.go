package conn_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http2"
)

// talk answers each byte of a request body when it has come.
var talk = conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	_ = rc.EnableFullDuplex()
	w.WriteHeader(200)
	_ = rc.Flush()
	for b := make([]byte, 1); ; {
		if _, err := io.ReadFull(r.Body, b); err != nil {
			_, _ = fmt.Fprint(w, err)
			return
		}
		_, _ = w.Write(b)
		_ = rc.Flush()
	}
}))

// pause is between the bytes of a client that talks: within body_timeout, and far below min_rate.
const pause = 9 * time.Second

// TestMinRateDuringTheAnswer: a client that hears an answer while it sends its request may say
// little.
func TestMinRateDuringTheAnswer(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: talk})
		c := s.Dial()
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
		answer := must.Get(http.ReadResponse(bufio.NewReader(c.Conn), nil))(t)
		for _, b := range "ninety seconds" {
			send(t, c, fmt.Sprintf("1\r\n%c\r\n", b))
			got := make([]byte, 1)
			if _, err := io.ReadFull(answer.Body, got); err != nil || rune(got[0]) != b {
				t.Fatalf("%q, %v, want %q", got, err, b)
			}
			s.Settle()
			s.Skip(pause)
		}
		c.Close()
	}, plain, direct, overTLS)
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: talk})
		r := dial2(t, s)
		r.head(1, 0, ":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a").flush()
		for _, b := range "ninety seconds" {
			r.frame(http2.Data, 0, 1, string(b)).flush()
			if _, p := r.data(); string(p) != string(b) {
				t.Fatalf("%q, want %q", p, b)
			}
			s.Settle()
			s.Skip(pause)
		}
	}, modes.HTTP2)
}

// TestRestAfterTheAnswer: the rate holds again for what a handler has left unread.
func TestRestAfterTheAnswer(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(_ *conn.Request, w *conn.Response) int {
			return w.Text(200, "enough")
		}})
		c := s.Dial()
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
		for range 10 {
			send(t, c, "x")
			s.Settle()
			s.Skip(pause)
			if s.Active() == 0 {
				return
			}
		}
		t.Error("a byte in nine seconds is fast enough")
	}, plain, direct, overTLS)
}
