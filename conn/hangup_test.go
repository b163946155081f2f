package conn_test

import (
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http2"
)

// hangUp gives no answer, but to the path "/".
func hangUp(req *conn.Request, resp *conn.Response) int {
	if req.Path() == "/" {
		return hello(req, resp)
	}
	resp.Header().Set("X", "y")
	resp.SetBody([]byte("nobody reads this"))
	return resp.Layer().HangUp()
}

// TestHangUp: the client gets what was answered before, and then the end of the connection.
func TestHangUp(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		log := new(entries)
		s := start(t, m, conn.Config{Handler: hangUp, AccessLog: log})
		c := s.Dial()
		send(t, c, "POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"+get)
		if all, err := io.ReadAll(c.R); len(all) > 0 || err != nil {
			t.Errorf("%q, %v", all, err)
		}
		if e := log.one(t); e.Status != conn.StatusNoAnswer || e.Bytes != 0 {
			t.Errorf("%d, %d bytes", e.Status, e.Bytes)
		}
		c = s.Dial()
		send(t, c, get+"GET /no HTTP/1.1\r\nHost: a\r\n\r\n"+get)
		all := string(must.Get(io.ReadAll(c.R))(t))
		if strings.Count(all, "HTTP/1.1 200") != 1 || strings.Contains(all, "nobody") {
			t.Errorf("%q", all)
		}
	})
}

// TestHTTP2HangUp: the stream alone ends.
func TestHTTP2HangUp(t *testing.T) {
	t.Parallel()
	log := new(entries)
	s := start(t, modes.HTTP2, conn.Config{Handler: hangUp, AccessLog: log})
	r := dial2(t, s).post(1, "/no").flush()
	if got := r.until(http2.RSTStream); got != "RST_STREAM 1 INTERNAL_ERROR" {
		t.Error(got)
	}
	if e := log.one(t); e.Status != conn.StatusNoAnswer {
		t.Error(e.Status)
	}
	if got := r.get(3).flush().until(http2.Headers); got != "HEADERS 3 200" {
		t.Error(got)
	}
}
