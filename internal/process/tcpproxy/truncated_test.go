package tcpproxy_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestClientCut: an upstream can tell a client that was cut from one that has said all, with TLS on
// either side and without.
func TestClientCut(t *testing.T) {
	t.Parallel()
	a := certs.New(t)
	for name, config := range map[string]*tls.Config{"plain": nil, "TLS": a.Config("a.example")} {
		got := make(chan error, 1)
		s := serveTLS(t, one+"'"+upstream(t, func(c *net.TCPConn) {
			_, _ = io.WriteString(c, ".")
			_, err := io.Copy(io.Discard, c)
			got <- err
		})+"'", config)
		begin := func() (raw *net.TCPConn, c interface {
			io.ReadWriter
			CloseWrite() error
		}) {
			raw = s.dial()
			if c = raw; config != nil {
				c = tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
			}
			wants(t, c, ".")
			says(t, c, "half of it")
			return raw, c
		}
		raw, _ := begin()
		s.settle()
		must.Do(t, raw.SetLinger(0))
		raw.Close()
		if err := <-got; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: a client that was reset: %v", name, err)
		}
		_, c := begin()
		must.Do(t, c.CloseWrite())
		if err := <-got; err != nil {
			t.Errorf("%s: a client that has said all: %v", name, err)
		}
	}
}

// TestHeldCut: an upstream that does not read, and so has not got all that has come for it when
// idle_timeout ends the connection, does not see an orderly end.
func TestHeldCut(t *testing.T) {
	t.Parallel()
	at, came := silence(t)
	s := serve(t, one+"'"+at+"'")
	// A busy machine's TCP may stand still for a while before any buffer is full. Then nothing is
	// held, and the next connection has to show it.
	for range 10 {
		before := s.counts().Got
		c := s.dial()
		up := <-came
		ended := make(chan struct{})
		go func() {
			_, _ = io.Copy(c, io.LimitReader(zeroes{}, 1<<30))
			close(ended)
		}()
		standsStill(t, func() int64 { return s.counts().Got - before })
		wait.Until(t, "the end", func() bool {
			s.skip(11 * time.Minute) // once more if something has moved after all
			return s.counts().Open == 0
		})
		<-ended
		n, err := io.Copy(io.Discard, up)
		if n == s.counts().Got-before && err == nil {
			continue
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%d of %d bytes, and then %v", n, s.counts().Got-before, err)
		}
		return
	}
	t.Error("nothing was ever held")
}
