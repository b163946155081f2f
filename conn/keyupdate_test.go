package conn_test

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/keyupdate"
	"github.com/lwango/lwango/loop"
)

// TestKeyUpdateIsNoRequest: a client that changes its keys, and says nothing else, has begun no
// request, and gets no 408 but the end of an idle connection.
func TestKeyUpdateIsNoRequest(t *testing.T) {
	t.Parallel()
	s := start(t, overTLS, conn.Config{Handler: hello, HeaderTimeout: time.Minute})
	raw, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	var secrets strings.Builder
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, KeyLogWriter: &secrets})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if c.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skip("the processor has no AES")
	}
	s.Settle()
	if _, err := raw.Write(keyupdate.First(t, secrets.String(), "CLIENT", false)); err != nil {
		t.Fatal(err)
	}
	s.Settle()
	s.On(func(l *loop.Loop) { l.Skip(2 * time.Minute) })
	if got, err := io.ReadAll(c); len(got) > 0 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
