package fastcgi_test

import (
	"net/textproto"
	"testing"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestCases: whatever an application gets wrong, the client sees what it should.
func TestCases(t *testing.T) {
	t.Parallel()
	fcgitest.Run(t, func(t *testing.T, up *fcgitest.Upstream, tt fcgitest.Case, body string,
		keep bool) fcgitest.Answer {
		p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
			if s.KeepConn = keep; tt.Timeout > 0 {
				s.ReadTimeout, s.SendTimeout = tt.Timeout, tt.Timeout
			}
		})
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(p.log)
			}
		})
		line := "GET /x.php?q"
		if body != "" {
			line = "POST /x.php?q"
		}
		g := p.request(line, nil, body)
		if (g.status == 503) != (g.header.Get("Retry-After") != "") {
			t.Error("Retry-After: ", g.header)
		}
		// Bytes behind the end may come when the connection is kept already. The next request finds
		// them.
		if keep && tt.Spoilt && g.err == nil && tt.Name != "bytes behind the end" &&
			!up.Wait(wait.Patience, func(_, open, _ int) bool { return open == 0 }) {
			t.Error("the connection is kept")
		}
		return fcgitest.Answer{Status: g.status, Header: textproto.MIMEHeader(g.header),
			Body: g.body, Err: g.err}
	})
}
