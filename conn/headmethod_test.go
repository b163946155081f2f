package conn_test

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
)

// TestHeadHasNoContent: whatever the answer to a HEAD is, and however its bytes come, it ends with
// its head.
func TestHeadHasNoContent(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		var seen paths
		s := start(t, m, rejectConfig(&seen))
		ask := func(raw string, at, status int) {
			t.Helper()
			c := s.Dial()
			defer c.Close()
			send(t, c, raw[:at])
			if at < len(raw) {
				s.Settle()
			}
			send(t, c, raw[at:])
			got := rest(t, c)
			if i := strings.Index(got, "\r\n\r\n"); !strings.HasPrefix(got,
				fmt.Sprintf("HTTP/1.1 %d ", status)) || i+4 != len(got) {
				t.Fatalf("%q, split at %d: %q", clip(raw), at, clip(got))
			}
		}
		for _, row := range rejects {
			method, after, _ := strings.Cut(row.raw, " ")
			switch {
			case method == "GET":
				row.raw = "HEAD " + after
			case strings.HasPrefix(row.raw, post), method == "POST":
				row.raw = "HEAD " + after
			default: // it is about what stands before the path
				continue
			}
			for at := 1; at <= len(row.raw); at++ {
				if skipSplit(row.raw, at) {
					continue
				}
				ask(row.raw, at, row.status)
			}
		}
		for _, raw := range []string{"HEAD\rx / HTTP/1.1\r\nHost: a\r\n\r\n",
			"HEAD\r\nHost: a\r\n\r\n", "HEAD\n", "HEAD\t/ HTTP/1.1\r\n\r\n", "\r\nHEAD /\n"} {
			for at := 1; at <= len(raw); at++ {
				ask(raw, at, 400)
			}
		}
		if got := seen.take(); strings.Contains(got, "smuggled") {
			t.Errorf("served %s", got)
		}
	}, direct)
}

// TestHeadInVain: a HEAD that does not become complete is one all the same.
func TestHeadInVain(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		// It also limits the wait for the first byte, and a TLS handshake.
		s := start(t, m, conn.Config{Handler: hello, Limits: conn.Limits{HeaderTimeout: time.Hour}})
		clients := make(map[string]*client)
		for _, raw := range []string{"HEAD /x", "HEAD /x HTTP/1.1\r\nHost", "\r\nHEAD "} {
			clients[raw] = s.Dial()
			send(t, clients[raw], raw)
		}
		s.Skip(time.Hour)
		for raw, c := range clients {
			if a := c.Answer("HEAD"); a.StatusCode != 408 {
				t.Errorf("%q: %s", raw, a.Status)
			}
			c.Ends()
		}
	}, plain, overTLS)
}

// TestSchemeOfTheTarget: an https resource is not to be had over a plain connection.
func TestSchemeOfTheTarget(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: hello})
		c := s.Dial()
		_, secure := c.Conn.(*tls.Conn)
		for _, row := range []struct {
			raw          string
			plain, onTLS int
		}{
			{"GET https://a/x HTTP/1.1\r\nHost: a\r\n\r\n", 421, 200},
			{"GET HTTPS://a HTTP/1.1\r\nHost: a\r\n\r\n", 421, 200},
			{"OPTIONS https://a HTTP/1.1\r\nHost: a\r\n\r\n", 421, 200},
			{"POST https://a/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 421, 200},
			{"GET http://a/x HTTP/1.1\r\nHost: a\r\n\r\n", 200, 200},
			{"GET /x?https://a/x HTTP/1.1\r\nHost: a\r\n\r\n", 200, 200},
		} {
			want := row.plain
			if secure {
				want = row.onTLS
			}
			if a := c.Do(strings.Fields(row.raw)[0], row.raw); a.StatusCode != want || a.Close {
				t.Errorf("%q: %s, close is %v", row.raw, a.Status, a.Close)
			}
		}
	}, plain, overTLS)
}
