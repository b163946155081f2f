package tcpproxy_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
)

// ahead sends a text with the first bytes that are written.
type ahead struct {
	pieces
	text string
}

func (a *ahead) Write(b []byte) (int, error) {
	if a.text != "" {
		text := a.text
		a.text = ""
		_, err := a.pieces.Write(append([]byte(text), b...))
		return len(b), err
	}
	return a.pieces.Write(b)
}

// TestHeaderThenTLS: behind the header of the PROXY protocol TLS is ended, or led by its name, also
// if both come in one segment.
func TestHeaderThenTLS(t *testing.T) {
	t.Parallel()
	a := certs.New(t)
	cert, key := a.Files(a.Issue(time.Hour, "a.example"))
	const header = "PROXY TCP4 192.0.2.7 198.51.100.1 1234 443\r\n"
	const keys = "trusted_proxies = '127.0.0.1'\nproxy_protocol = true\n"
	ended := serve(t, "[[stream]]\nLISTEN\n"+keys+
		fmt.Sprintf("tls = { cert = %q, key = %q }\n", cert, key)+
		"[[stream.route]]\nsni = 'a.example'\nproxy_protocol = 'v1'\naddress = '"+upstream(t, echo(""))+
		"'\n")
	led := serve(t, "[[stream]]\nLISTEN\n"+keys+
		"[[stream.route]]\nsni = 'a.example'\naddress = '"+secure(t, a, "a.example")+"'\n")
	for _, n := range []int{1, 60, 1 << 20} {
		for s, want := range map[*running]string{ended: header, led: "a.example"} {
			c := tls.Client(&ahead{pieces{s.dial(), n}, header},
				&tls.Config{ServerName: "a.example", RootCAs: a.Pool})
			wants(t, c, want)
			says(t, c, "hello")
			wants(t, c, "hello")
			c.Close()
		}
	}
}

// TestManyAtOnce: connections of one loop do not mix what they carry.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, strings.Replace(one, "LOG\n", "max_connections_per_address = -1\n", 1)+"'"+
		upstream(t, echo(""))+"'")
	done := make(chan error)
	const n = 40
	for i := range n {
		c := s.dial()
		go func() {
			text := strings.Repeat(fmt.Sprintf("%04d", i), 50_000)
			go func() {
				_, _ = io.WriteString(c, text)
				_ = c.CloseWrite()
			}()
			got, err := io.ReadAll(c)
			if err == nil && string(got) != text {
				err = fmt.Errorf("connection %d has got %d bytes of its own or another", i, len(got))
			}
			done <- err
		}()
	}
	for range n {
		must.Do(t, <-done)
	}
}
