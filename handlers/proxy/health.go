package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/lwango/lwango/internal/modules/reverseproxy"
)

// ping asks an upstream, see reverseproxy.Route.
func (m *module) ping(c net.Conn, name string) (status int, body []byte, err error) {
	h := &m.set.Health
	host := m.set.Host
	if h.Host != "" {
		host = h.Host
	} else if host == "client" || host == "upstream" {
		host = m.hosts[name]
	}
	if m.speaksHTTP2(name) {
		return pingHTTP2(c, host, h.Path)
	}
	_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: lwango (health)\r\n"+
		"Connection: close\r\n\r\n", h.Path, host)
	if err != nil {
		return 0, nil, err
	}
	// The bound is for interim responses, too, which can be any number.
	limited := io.LimitedReader{R: c, N: reverseproxy.HealthRead}
	in := bufio.NewReader(&limited)
	for {
		resp, err := http.ReadResponse(in, nil)
		switch {
		case err != nil:
			return 0, nil, err
		case resp.StatusCode >= 100 && resp.StatusCode < 200:
			continue
		}
		// A connection that is closed with unread bytes is reset, which upstreams log. If the status
		// says all, what becomes of the body does not matter.
		limited.N = reverseproxy.HealthRead
		body, _ = io.ReadAll(resp.Body)
		return resp.StatusCode, body, nil
	}
}

// speaksHTTP2 reports whether an address is asked by HTTP/2.
func (m *module) speaksHTTP2(name string) bool {
	return m.set.Version == "2" || strings.HasPrefix(name, "h2c://")
}

// pingHTTP2 asks for a path by HTTP/2 on c, whose deadline is the limit.
func pingHTTP2(c net.Conn, host, path string) (status int, body []byte, err error) {
	dial := func(context.Context, string, string) (net.Conn, error) { return c, nil }
	t := http.Transport{DialContext: dial, DialTLSContext: dial, Protocols: new(http.Protocols),
		DisableCompression:     true,
		MaxResponseHeaderBytes: reverseproxy.HealthRead}
	defer t.CloseIdleConnections()
	scheme := "http"
	if _, ok := c.(*tls.Conn); ok {
		scheme = "https"
		t.Protocols.SetHTTP2(true)
	} else {
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	req, err := http.NewRequest(http.MethodGet, scheme+"://"+host+path, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("User-Agent", "lwango (health)")
	resp, err := t.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, _ = io.ReadAll(io.LimitReader(resp.Body, reverseproxy.HealthRead))
	return resp.StatusCode, body, nil
}

// Descriptors implements handlers.DescriptorHolder, for checks.
func (s Settings) Descriptors() int { return reverseproxy.CheckDescriptors(&s.Settings, s.Address) }
