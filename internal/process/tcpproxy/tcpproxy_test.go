package tcpproxy_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"sync"
	"testing"

	"github.com/lwango/lwango/internal/test/wait"
)

const one = "[[stream]]\nLISTEN\nLOG\n[[stream.route]]\naddress = "

// TestEcho: bytes go both ways, an end of either half too, and the connection has its line.
func TestEcho(t *testing.T) {
	t.Parallel()
	up := upstream(t, echo("hello "))
	s := serve(t, one+"'"+up+"'")
	c := s.dial()
	wants(t, c, "hello ") // the upstream speaks first
	says(t, c, "one")
	wants(t, c, "one")
	says(t, c, "two")
	_ = c.CloseWrite()
	wantsEnd(t, c, "two")
	line := s.log(1)[0]
	if ok, _ := regexp.MatchString(`^127\.0\.0\.1 \[.*\] "-" `+up+` 6 12 \d+\.\d+ "complete" - -$`,
		line); !ok {
		t.Errorf("log: %s", line)
	}
	if n := s.counts(); n.Open != 0 || n.Accepted != 1 || n.Got != 6 || n.Sent != 12 || n.Failed != 0 {
		t.Errorf("counts: %+v", n)
	}
}

// TestHalfClose: the upstream may end its half first, and goes on to read.
func TestHalfClose(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	s := serve(t, one+"'"+upstream(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "all")
		_ = c.CloseWrite()
		text, _ := io.ReadAll(c)
		got <- string(text)
	})+"'")
	c := s.dial()
	wantsEnd(t, c, "all")
	says(t, c, "still here")
	_ = c.CloseWrite()
	if text := <-got; text != "still here" {
		t.Errorf("the upstream has got %q", text)
	}
}

// TestBulk: much goes through unchanged in both directions at once, while neither side reads as
// fast as the other writes.
func TestBulk(t *testing.T) {
	t.Parallel()
	const size = 24 << 20
	data := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(data)
	sums := make(chan [32]byte, 1)
	s := serve(t, one+"'"+upstream(t, func(c *net.TCPConn) {
		var writes sync.WaitGroup
		defer writes.Wait()
		writes.Go(func() {
			_, _ = io.Copy(c, bytes.NewReader(data))
			_ = c.CloseWrite()
		})
		h := sha256.New()
		_, _ = io.Copy(h, c)
		sums <- [32]byte(h.Sum(nil))
	})+"'")
	c := s.dial()
	go func() {
		_, _ = io.Copy(c, bytes.NewReader(data))
		_ = c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if <-sums != sha256.Sum256(data) {
		t.Error("the upstream has got something else")
	}
	wait.Until(t, "the end", func() bool { return s.counts().Open == 0 })
	if n := s.counts(); n.Got != size || n.Sent != size {
		t.Errorf("counts: %+v", n)
	}
}
