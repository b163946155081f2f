package proxy_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestLenient: an upstream whose lines end in LF alone is refused, with its octets in the log,
// unless the route is lenient. The same length twice, and white space behind the size of a chunk,
// are taken anyway.
func TestLenient(t *testing.T) {
	var answer string
	o := start(t, func(p *originConn) {
		if p.request() != nil {
			p.say("%s", answer)
		}
	})
	for _, lenient := range []bool{false, true} {
		f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
			s.Lenient = lenient
		})
		for _, test := range []struct {
			answer string
			strict bool // it is taken in any case
		}{
			{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", true},
			{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5  \r\nhello\r\n0\r\n\r\n", true},
			{"HTTP/1.0 200 OK\nServer: old\n\nhello", false},
			{"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", false},
		} {
			answer = test.answer
			got := f.get("/")
			if !test.strict && !lenient {
				if got.status != 502 {
					t.Errorf("%q: %v", answer, got)
				}
			} else if got.status != 200 || got.body != "hello" || got.err != nil ||
				len(got.header.Values("Content-Length")) > 1 {
				t.Errorf("%q, lenient %v: %v", answer, lenient, got)
			}
		}
		const want = `malformed answer: line ends in LF without CR: \"HTTP/1.0 200 OK\\nServer: old\\n`
		if logged := strings.Contains(f.log.String(), want[:60]); logged == lenient {
			t.Errorf("lenient %v, the log:\n%s", lenient, f.log)
		}
	}
}
