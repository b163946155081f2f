package conn_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/lwango/lwango/conn"
)

// TestTrailerOfOneRequest: a request without chunks does not have the trailer of one before it, on
// this connection or on another.
func TestTrailerOfOneRequest(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			req.Body().KeepTrailer()
			if _, err := io.Copy(io.Discard, req.Body()); err != nil {
				t.Error(err)
			}
			req.Body().Trailer(func(name, value string) { fmt.Fprint(resp, name, "=", value) })
			return 200
		}})
		c := s.Dial()
		a := c.Do("POST", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+
			"1\r\nx\r\n0\r\nX-T: u\r\n\r\n")
		if a.Text != "X-T=u" {
			t.Errorf("%q", a.Text)
		}
		for _, raw := range []string{get,
			"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"} {
			if a := c.Do("GET", raw); a.Text != "" {
				t.Errorf("%q has %q", raw, a.Text)
			}
			if a := s.Dial().Do("GET", raw); a.Text != "" {
				t.Errorf("%q on another connection has %q", raw, a.Text)
			}
		}
	})
}
