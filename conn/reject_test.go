package conn_test

import (
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/race"
)

const (
	good     = "GET /good HTTP/1.1\r\nHost: a\r\n\r\n"
	smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

	post    = "POST /bad HTTP/1.1\r\nHost: a\r\n"
	chunked = post + "Transfer-Encoding: chunked\r\n\r\n"
)

// rejects are requests that are answered with that status, behind which the connection closes. The
// limits are rejectConfig's. A second request that a more lenient parser would see stands in the
// body of some; behind all of them comes one that must not be served either.
var rejects = []struct {
	raw    string
	status int
}{
	// Two framings: whichever this server took, the proxy before it may have taken the other.
	{post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	{post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400},
	{post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400},
	{post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400},
	{post + "Content-Length: 5, 5\r\n\r\nhello", 400},
	{post + "Content-Length: 5, 6\r\n\r\nhello", 400},
	// A number is digits.
	{post + "Content-Length:\r\n\r\n", 400},
	{post + "Content-Length: +5\r\n\r\nhello", 400},
	{post + "Content-Length: -5\r\n\r\nhello", 400},
	{post + "Content-Length: 0x5\r\n\r\nhello", 400},
	{post + "Content-Length: 5 5\r\n\r\nhello", 400},
	{post + "Content-Length: 5;\r\n\r\nhello", 400},
	{post + "Content-Length: five\r\n\r\nhello", 400},
	{post + "Content-Length: 9223372036854775808\r\n\r\n", 400},
	{post + "Content-Length: 18446744073709551621\r\n\r\nhello", 400}, // 5, modulo 2^64
	// Chunked once, alone, on 1.1, in no disguise.
	{post + "Transfer-Encoding: gzip\r\n\r\n", 400},
	{post + "Transfer-Encoding: identity\r\n\r\n", 400},
	{post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
	{post + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400},
	{"GET /bad HTTP/1.1\r\nHost:\r\n\r\n", 400},
	{"GET /bad HTTP/1.1\r\nHost: admin%2etest\r\n\r\n", 400},
	{post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400},
	{post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	{post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 400},
	{post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400},
	{post + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400},
	{post + "Transfer-Encoding:\r\n\r\n0\r\n\r\n", 400},
	{"POST /bad HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
	// Field lines.
	{post + "Content-Length : 5\r\n\r\nhello", 400},
	{post + "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", 400},
	{post + "X: a\r\n Content-Length: 5\r\n\r\nhello", 400},
	{post + "X: a\r\n\tb\r\n\r\n", 400},
	{"GET /bad HTTP/1.1\r\n Host: a\r\n\r\n", 400},
	{post + "X: a\rContent-Length: 5\r\n\r\nhello", 400},
	{post + "X: a\nContent-Length: 5\r\n\r\nhello", 400},
	{post + "no colon\r\n\r\n", 400},
	{post + ": no name\r\n\r\n", 400},
	{post + "X: a\x00b\r\n\r\n", 400},
	{post + "X: a\x01b\r\n\r\n", 400},
	{post + "X: a\x7f\r\n\r\n", 400},
	{post + "X\x00: a\r\n\r\n", 400},
	{"GET /bad HTTP/1.1\nHost: a\n\n", 400},
	{"GET /bad HTTP/1.1\r\nHost: a\r\n\n", 400},
	{"GET /bad HTTP/1.1\r\r\nHost: a\r\n\r\n", 400},
	// Empty lines before a request are ignored, but are no way to keep a connection busy.
	{strings.Repeat("\r\n", 9) + "GET /bad HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"\nGET /bad HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	// Host.
	{"GET /bad HTTP/1.1\r\n\r\n", 400},
	{"GET http://a/bad HTTP/1.1\r\n\r\n", 400},
	{"GET /bad HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
	{"GET /bad HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
	{"GET /bad HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
	{"GET /bad HTTP/1.1\r\nHost: u@a\r\n\r\n", 400},
	// Request line.
	{"GET /bad\r\n", 400},
	{"GET  /bad HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"GET /b ad HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"GET bad HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"GET ftp://a/bad HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"GET /bad#b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"GET /bad HTTP/1.1x\r\nHost: a\r\n\r\n", 400},
	{"G@T /bad HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"\x16\x03\x01\x02\x00", 400}, // a TLS client at the wrong port
	{"PRI /bad HTTP/1.1\r\nHost: a\r\n\r\n", 501},
	{strings.Repeat("A", 100_000) + " /bad HTTP/1.1\r\nHost: a\r\n\r\n", 501},
	{strings.Repeat("A", 65), 501}, // no byte behind it makes it a method
	{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
	{"GET /bad HTTP/3.0\r\nHost: a\r\n\r\n", 505},
	{"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 405},
	// Paths.
	{"GET /../bad HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"GET /a/../../bad HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"GET /%2e%2e/bad HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"GET /a%2f..%2f..%2fbad HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"GET /bad%2 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"GET /bad%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"GET /bad%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	{"GET /bad%0d%0a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	// Limits.
	{"GET /" + strings.Repeat("b", 300) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
	{"GET /bad HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("b", 300) + "\r\n\r\n", 431},
	// also where a bad field follows
	{"GET /bad HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("b", 220) + "\r\nY : b\r\n\r\n", 431},
	{post + "Content-Length: 65\r\n\r\n", 413},
	{post + "Content-Length: 65\r\nExpect: 100-continue\r\n\r\n", 413},
	{chunked + "40\r\n" + strings.Repeat("b", 64) + "\r\n1\r\nb\r\n0\r\n\r\n", 413},
	{post + "Content-Length: 5\r\nExpect: tea\r\n\r\nhello", 417},
	// Chunks, which the handler reads.
	{chunked + "5\nhello\r\n0\r\n\r\n", 400},
	{chunked + "5\rhello\r\n0\r\n\r\n", 400},
	{chunked + "5;a\nhello\r\n0\r\n\r\n", 400},
	{chunked + "5\r\nhello\n0\r\n\r\n", 400},
	{chunked + "5\r\nhelloworld\r\n0\r\n\r\n", 400},
	{chunked + "\r\nhello\r\n0\r\n\r\n", 400},
	{chunked + "-5\r\nhello\r\n0\r\n\r\n", 400},
	{chunked + "0x5\r\nhello\r\n0\r\n\r\n", 400},
	{chunked + "5 \r\nhello\r\n0\r\n\r\n", 400},
	{chunked + "ffffffffffffffff0\r\nhello\r\n0\r\n\r\n", 400},
	{chunked + "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n", 400},
	{chunked + "0\r\nX : a\r\n\r\n", 400},
	{chunked + "0\r\nX: a\n\r\n", 400},
	{chunked + "0\r\n\n", 400},
}

func rejectConfig(seen *paths) conn.Config {
	return conn.Config{Limits: conn.Limits{MaxHeaderSize: 256, MaxBodySize: 64},
		Handler: func(req *conn.Request, resp *conn.Response) int {
			seen.add(req.Path())
			// the server finds the status for a bad body by itself
			_, _ = io.Copy(io.Discard, req.Body())
			resp.WriteString("served")
			return 200
		}}
}

// check takes everything that came on a connection on which first good and then a bad request was
// sent.
func check(t *testing.T, got string, statuses ...int) {
	t.Helper()
	methods := make([]string, len(statuses))
	all := parse(t, got, methods...)
	for i, a := range all {
		if a.StatusCode != statuses[i] {
			t.Errorf("answer %d: %s, want %d", i+1, a.Status, statuses[i])
		}
		last := i == len(all)-1
		if a.Close != last {
			t.Errorf("answer %d of %d: close is %v", i+1, len(all), a.Close)
		}
		if last && (a.Text == "" || strings.Contains(a.Text, "served")) {
			t.Errorf("body of the refusal: %q", a.Text)
		}
	}
}

func TestRejectsWholeAndPipelined(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		var seen paths
		s := start(t, m, rejectConfig(&seen))
		for _, row := range rejects {
			check(t, s.Exchange(row.raw+smuggled), row.status)
			check(t, s.Exchange(good+row.raw+smuggled), 200, row.status)
			check(t, s.Exchange(good+good+row.raw+smuggled+smuggled), 200, 200, row.status)
			if got := seen.take(); strings.Contains(got, "smuggled") ||
				strings.Count(got, "/good") != 3 {
				t.Errorf("served %s", got)
			}
			if t.Failed() {
				t.Fatalf("row %q", clip(row.raw))
			}
		}
		s.Idle()
	}, http1...)
}

// skipSplit reports whether a row need not be split there: long ones are all alike inside, and
// races do not depend on where exactly.
func skipSplit(raw string, at int) bool {
	step := 1
	switch {
	case len(raw) > 200:
		step = 37
	case race.Enabled:
		step = 5
	}
	return at%step != 0 && at != len(raw)
}

// TestRejectsSplit sends every row in two pieces, split at every byte, behind a good request and in
// front of a smuggled one; the server has read the first piece before the second comes.
func TestRejectsSplit(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		var seen paths
		s := start(t, m, rejectConfig(&seen))
		for _, row := range rejects {
			raw := row.raw + smuggled
			for at := 1; at <= len(row.raw); at++ {
				if skipSplit(row.raw, at) {
					continue
				}
				c := s.Dial()
				send(t, c, good+raw[:at])
				s.Settle()
				send(t, c, raw[at:])
				check(t, rest(t, c), 200, row.status)
				c.Close()
				if got := seen.take(); strings.Contains(got, "smuggled") ||
					strings.Count(got, "/good") != 1 {
					t.Errorf("%q: served %s", row.raw, got)
				}
				if t.Failed() {
					t.Fatalf("row %q split at %d", clip(row.raw), at)
				}
			}
		}
		s.Idle()
	}, plain)
}

// TestRejectsLinger keeps sending behind every answer. A server that has closed resets the
// connection upon that, which the write after it shows; what a reset does to an answer under way
// depends on the client's system.
func TestRejectsLinger(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		var seen paths
		s := start(t, m, rejectConfig(&seen))
		for _, row := range rejects {
			c := s.Dial()
			send(t, c, row.raw)
			for range 3 {
				s.Settle()
				if _, err := io.WriteString(c, smuggled); err != nil {
					t.Fatalf("%q: %v", clip(row.raw), err)
				}
			}
			check(t, rest(t, c), row.status)
			c.Close()
		}
		if got := seen.take(); strings.Contains(got, "smuggled") {
			t.Errorf("served %s", got)
		}
		s.Idle()
	}, plain, direct)
}
