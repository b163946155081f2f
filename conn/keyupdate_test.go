package conn_test

import (
	"crypto/tls"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/keyupdate"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestKeyUpdateIsNoRequest: a client that changes its keys, and says nothing else, has begun no
// request. It gets no 408 but the end of an idle connection, also if its record arrives in two
// parts.
func TestKeyUpdateIsNoRequest(t *testing.T) {
	t.Parallel()
	s := start(t, overTLS,
		conn.Config{Handler: hello, Limits: conn.Limits{HeaderTimeout: time.Minute}})
	raw := must.Dial(t, "tcp", s.Addr)
	var secrets strings.Builder
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, KeyLogWriter: &secrets})
	must.Do(t, c.Handshake())
	if c.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skip("the processor has no AES")
	}
	becomes := func(state string) {
		wait.Until(t, "the connection is: "+state, func() bool {
			all := described(s)
			return len(all) == 1 && strings.HasSuffix(all[0], state)
		})
	}
	becomes("no request yet") // the handshake computes off the loop
	record := keyupdate.First(t, secrets.String(), "CLIENT", false)
	must.Get(raw.Write(record[:7]))(t)
	becomes("between requests") // a part of a record may be one of a head
	must.Get(raw.Write(record[7:]))(t)
	becomes("no request yet")
	s.Skip(2 * time.Minute)
	if got, err := io.ReadAll(c); len(got) > 0 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
