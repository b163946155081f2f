package conn_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// heard keeps what was read.
type heard struct {
	net.Conn
	all bytes.Buffer
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.all.Write(p[:n])
	return n, err
}

// TestEnding: a TLS client whose idle connection is closed is told so, and can tell that nothing
// was cut (RFC 8446 section 6.1): after the idle time, to make room for another one, and at a stop.
func TestEnding(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why    string
		config conn.Config
		then   func(s *site)
	}{
		{"idle for long", conn.Config{Limits: conn.Limits{KeepAliveTimeout: 50 * time.Millisecond}},
			func(*site) {}},
		{"room for another one", conn.Config{Limits: conn.Limits{MaxConnections: 1}},
			func(s *site) { s.Dial().Do("GET", get) }},
		// Without a grace, the alert might be cut where the invariants tag has shortened its write.
		{"stop", conn.Config{}, func(s *site) { s.Stop(wait.Patience) }},
	} {
		row.config.Handler = hello
		s := start(t, overTLS, row.config)
		plain := must.Dial(t, "tcp", s.Addr)
		h := &heard{Conn: plain}
		// Up to TLS 1.2 the type of a record is plain to see.
		c := server.NewClient(t,
			tls.Client(h, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}))
		c.Do("GET", get)
		row.then(s)
		if _, err := c.R.ReadByte(); err != io.EOF {
			t.Errorf("%s: %v, want the end", row.why, err)
		}
		const alert = 21
		var last byte // the type of the last record (RFC 5246 section 6.2.1)
		for all := h.all.Bytes(); len(all) >= 5; {
			last = all[0]
			all = all[min(5+(int(all[3])<<8|int(all[4])), len(all)):]
		}
		if last != alert {
			t.Errorf("%s: the last record is of type %d, want an alert", row.why, last)
		}
	}
}
