// Package embedded runs a lwango.Server for a test, as a program that embeds one does.
package embedded

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/wait"
)

// Says returns a handler that answers with a text.
func Says(text string) lwango.Handler {
	return func(_ *lwango.Request, resp *lwango.Response) int { return resp.Text(200, text) }
}

// Start starts a server that ends with the test, and logs nothing unless it has a logger. stop ends
// it earlier. The test fails if Wait returns an error.
func Start(t *testing.T, s lwango.Server) (r *lwango.Running, stop func()) {
	t.Helper()
	if s.Logger == nil {
		s.Logger = logtext.Quiet
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := s.Start(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := r.Wait(); err != nil {
			t.Errorf("Wait: %v", err)
		}
	})
	t.Cleanup(stop)
	return r, stop
}

// Get asks for a URL on a connection of its own, and returns the body of the answer.
func Get(t *testing.T, url string) string {
	t.Helper()
	_, at, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(at, "/")
	return GetAt(t, url, host)
}

// GetAt is Get from a server at an address, host:port or unix:PATH. Any certificate will do.
func GetAt(t *testing.T, url, address string) string {
	t.Helper()
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	tr := &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	resp, err := (&http.Client{Transport: tr, Timeout: wait.Patience}).Get(url)
	if err != nil {
		t.Errorf("%s at %s: %v", url, address, err)
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}
