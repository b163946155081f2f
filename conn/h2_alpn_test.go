package conn_test

import (
	"crypto/tls"
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/wire/http2"
)

// TestHTTP2NeedsALPN: over TLS the preface alone does not begin HTTP/2 (RFC 9113 section 3.2).
func TestHTTP2NeedsALPN(t *testing.T) {
	t.Parallel()
	m := modes.HTTP2
	m.TLS = true
	s := start(t, m, conn.Config{Handler: hello})
	for _, protocols := range [][]string{nil, {"http/1.1"}} {
		c, err := tls.Dial("tcp", s.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, http2.Preface); err != nil {
			t.Error(err)
		}
		if got := server.Rest(t, c); !strings.HasPrefix(got, "HTTP/1.1 505 ") {
			t.Errorf("%q: %q", protocols, got)
		}
		c.Close()
	}
}
