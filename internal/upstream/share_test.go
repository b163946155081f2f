package upstream_test

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/upstream"
)

// TestShareOfMany: with many addresses, each has the time that a handshake takes.
func TestShareOfMany(t *testing.T) {
	ca := certs.New(t)
	config := ca.Config("127.0.0.1")
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		time.Sleep(100 * time.Millisecond)
		return nil, nil
	}
	ln := must.Get(tls.Listen("tcp", "127.0.0.1:0", config))(t)
	t.Cleanup(func() { ln.Close() })
	go func() {
		if c, err := ln.Accept(); err == nil {
			_ = c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	security := must.Get((&upstream.TLS{CA: ca.File}).Load(filepath.Clean, false))(t)
	addresses := []string{"https://" + ln.Addr().String()}
	for i := range 99 {
		addresses = append(addresses, fmt.Sprintf("https://127.0.0.1:%d backup", i+1))
	}
	r := newRoute(t, new(upstream.Pool), addresses, func(s *upstream.Settings) { s.TLS = security })
	r.get("x") // what is said over TLS does not matter
	if got := strings.Join(r.missed(), " "); got != "" {
		t.Error(got)
	}
}

// TestShare: each address that may be tried has the same time, but no less than a second, or a
// fourth of all. Less than half of that speaks against none.
func TestShare(t *testing.T) {
	const all = 6 * time.Second
	for _, tt := range []struct {
		all           time.Duration
		others, tries int
		share         time.Duration
	}{{all, 0, 0, all}, {all, 1, 0, all / 2}, {all, 256, 0, time.Second}, {all, 256, 2, all / 2},
		{all, 0, 3, all},
		{time.Second, 256, 0, time.Second / 4}} {
		share, blames := upstream.Share(tt.all, tt.others, tt.tries)
		if share != tt.share || !blames(share) || blames(min(tt.all/4, time.Second)/3) {
			t.Errorf("%+v: %v", tt, share)
		}
	}
}
