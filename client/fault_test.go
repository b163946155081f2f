package client_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/internal/test/refuse"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestFaults: what may be wrong with an answer, and the kind of the error.
func TestFaults(t *testing.T) {
	const head, chunks = "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, tt := range []struct {
		name, raw string
		want      string
		err       error
	}{
		{"length", head + "Content-Length: 5\r\n\r\nhello", "200 hello", nil},
		{"chunks", chunks + "2\r\nhe\r\n3\r\nllo\r\n0\r\nT: u\r\n\r\n", "200 hello", nil},
		{"until the end", head + "\r\nhello", "200 hello", nil},
		{"none", "HTTP/1.1 204 No\r\n\r\n", "204 ", nil},
		{"interim", "HTTP/1.1 103 E\r\n\r\n" + head + "Content-Length: 0\r\n\r\n", "200 ", nil},
		{"nothing", "", "", client.ErrCut},
		{"two lengths", head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "",
			client.ErrProtocol},
		{"length and chunks", head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			"", client.ErrProtocol},
		{"no HTTP", "SSH-2.0-OpenSSH_9.2\r\n", "", client.ErrProtocol},
		{"bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", "", client.ErrProtocol},
		{"gigantic head", head + "X: " + strings.Repeat("x", 200_000), "", client.ErrHeadSize},
		{"interims for ever", strings.Repeat("HTTP/1.1 103 E\r\n\r\n", 1000), "", client.ErrInterim},
		{"unasked upgrade", "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "",
			client.ErrProtocol},
		{"chunk's size", chunks + "2\r\nhe\r\nx\r\nllo\r\n0\r\n\r\n", "200 he", client.ErrProtocol},
		{"chunk's end", chunks + "2\r\nhello", "200 he", client.ErrProtocol},
		{"endless body", head + "\r\n" + strings.Repeat("x", 1<<20), "", client.ErrTooLarge},
		{"long chunk", chunks + "7fffffffffffffff\r\n" + strings.Repeat("x", 1<<20), "",
			client.ErrTooLarge},
		{"long body", head + "Content-Length: 9999999\r\n\r\n", "", client.ErrTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr, open := script(t, answer(tt.raw))
			onThread(t, func(th *loop.Thread) {
				var c client.Client
				resp, err := c.Do(th, wait.Patience, &client.Request{URL: "http://" + addr, MaxBody: 100_000})
				got := ""
				if err == nil {
					var body []byte
					body, err = io.ReadAll(resp.Body)
					if got = fmt.Sprint(resp.Status, " ", string(body)); len(body) > 100_000 {
						t.Error(len(body), "bytes")
					}
				}
				if !errors.Is(err, tt.err) || tt.want != "" && got != tt.want {
					t.Errorf("have %.80q, %v; want %q, %v", got, err, tt.want, tt.err)
				}
			})
			wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
		})
	}
}

// TestCut: answers that end at each of their bytes, whole and byte by byte.
func TestCut(t *testing.T) {
	for _, raw := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		for n := range len(raw) + 1 {
			addr, _ := script(t, func(c net.Conn, r *bufio.Reader) {
				if _, err := http.ReadRequest(r); err == nil {
					for i := range n {
						io.WriteString(c, raw[i:i+1])
					}
				}
			})
			onThread(t, func(th *loop.Thread) {
				got, err := get(th, new(client.Client), "http://"+addr, wait.Patience)
				if n == len(raw) && (err != nil || got != "200 hello") {
					t.Error(n, got, err)
				}
				if n < len(raw) && !errors.Is(err, client.ErrCut) {
					t.Errorf("%q: %q, %v", raw[:n], got, err)
				}
			})
		}
	}
}

// TestStall: a server that says nothing more ends the request when its time is over, wherever that
// is. Nothing stays open.
func TestStall(t *testing.T) {
	for _, raw := range []string{"", "HTTP/1.1 200",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"} {
		addr, open := script(t, func(c net.Conn, r *bufio.Reader) {
			io.WriteString(c, raw)
			io.Copy(io.Discard, r)
		})
		onThread(t, func(th *loop.Thread) {
			err := stalled(func(limit time.Duration) error {
				_, err := get(th, new(client.Client), "http://"+addr, limit)
				return err
			})
			if !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, client.ErrConnect) {
				t.Errorf("%q: %v", raw, err)
			}
		})
		wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
	}
}

// TestSlowReader: the limit also ends a body that never makes its reader wait.
func TestSlowReader(t *testing.T) {
	addr, open := script(t, func(c net.Conn, r *bufio.Reader) {
		http.ReadRequest(r)
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		for {
			if _, err := c.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	onThread(t, func(th *loop.Thread) {
		err := stalled(func(limit time.Duration) error {
			resp, err := client.Do(th, limit, &client.Request{URL: "http://" + addr, MaxBody: 1 << 40})
			for err == nil {
				if _, err = resp.Body.Read(make([]byte, 1<<10)); err == nil {
					err = th.Sleep(time.Millisecond) // meanwhile the socket is full
				}
			}
			return err
		})
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
	wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
}

// TestNoConnection: errors before a byte was sent.
func TestNoConnection(t *testing.T) {
	nobody := refuse.Address(t)
	silent, _ := script(t, func(c net.Conn, r *bufio.Reader) { io.Copy(io.Discard, r) })
	plain, _ := script(t, answer(reusable))
	onThread(t, func(th *loop.Thread) {
		for _, tt := range []struct {
			url     string
			limit   time.Duration
			connect bool
			text    string
		}{
			{"http://" + nobody, wait.Patience, true, "connection refused"},
			{"http://nobody.invalid/", wait.Patience, true, "nobody.invalid"},
			{"https://" + silent, 50 * time.Millisecond, true, "timeout"},
			{"https://" + plain, 10 * time.Second, true, "tls handshake: "},
			{"http://" + nobody, 0, true, "timeout"},
			{"http://" + nobody, -1, true, "connection refused"},
			{"ftp://a/", time.Second, false, "expected http:// or https://, with a host and without a user"},
			{"/path", time.Second, false, "expected http:// or https://"},
			{"http://u:p@a/", time.Second, false, "http://u:xxxxx@a/: expected http://"},
			{"http://a b/", time.Second, false, "invalid character"},
			{"http://a:0/", time.Second, false, "expected a port between 1 and 65535"},
			{"http://:/", time.Second, false, "with a host"},
			{"http://unix:8080/", time.Second, false, "a host with the name unix can have no port"},
			{"https://unix:8080/", time.Second, false, "a host with the name unix can have no port"},
			{"http://nobody.invalid:/", wait.Patience, true, "nobody.invalid"},
			{"http://a/\r\nX: y", time.Second, false, "invalid control character"},
		} {
			_, err := client.Get(th, tt.limit, tt.url)
			if err == nil || errors.Is(err, client.ErrConnect) != tt.connect ||
				!strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s: %v", tt.url, err)
			}
		}
	})
}
