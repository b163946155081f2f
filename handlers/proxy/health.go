package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/upstream"
)

// Health is the key `health`: requests of the server's own, by which it finds out whether an
// upstream works.
type Health struct {
	// Path is what is asked for; empty: there are no checks.
	Path string `toml:"path"`
	// Status is which answers are good ones.
	Status string `toml:"status"`
	// Interval is between two checks of an address.
	Interval time.Duration `toml:"interval" min:"100ms" max:"1h"`
	// Timeout is for a check.
	Timeout time.Duration `toml:"timeout" min:"10ms" max:"1m"`
	// Rises is how many good answers in a row bring an address back.
	Rises int `toml:"rises" min:"1" max:"100"`
	// Falls is how many bad ones take it away.
	Falls int `toml:"falls" min:"1" max:"100"`
}

// healthRead is how much is read of the head of an answer, and then of its body, in bytes.
const healthRead = 64 << 10

// check makes the checks, nil if the route has none. m.set is complete, and m.hosts will be.
func (m *module) check() (*upstream.Check, error) {
	h := &m.set.Health
	if h.Path == "" {
		unset := *h
		if unset != Defaults.Health {
			return nil, handlers.BadKey("health", `expected a path, such as "/up"`)
		}
		return nil, nil
	}
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if h.Path[0] != '/' || strings.ContainsFunc(h.Path, odd) {
		return nil, handlers.BadKey("health",
			`path: expected one that begins with a slash, in ASCII without spaces, not %q`, h.Path)
	}
	least, most, err := statuses(h.Status)
	if err != nil {
		return nil, handlers.BadKey("health", "status: %w", err)
	}
	ask := func(c net.Conn, name string) error {
		host := m.set.Host
		if host == "client" || host == "upstream" {
			host = m.hosts[name]
		}
		good := func(status int) error {
			if status < least || status > most {
				return fmt.Errorf("%s has status %d", h.Path, status)
			}
			return nil
		}
		if m.speaks2(name) {
			status, err := ask2(c, host, h.Path)
			if err != nil {
				return err
			}
			return good(status)
		}
		_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: lwango (health)\r\n"+
			"Connection: close\r\n\r\n", h.Path, host)
		if err != nil {
			return err
		}
		// The bound is for interim responses, too, which can be any number.
		limited := io.LimitedReader{R: c, N: healthRead}
		in := bufio.NewReader(&limited)
		for {
			resp, err := http.ReadResponse(in, nil)
			switch {
			case err != nil:
				return err
			case resp.StatusCode >= 100 && resp.StatusCode < 200:
				continue
			}
			// A connection that is closed with unread bytes is reset, which upstreams log. The
			// status has said all, so what becomes of the body does not matter.
			limited.N = healthRead
			_, _ = io.Copy(io.Discard, resp.Body)
			return good(resp.StatusCode)
		}
	}
	return &upstream.Check{
		ID:       fmt.Sprintf("%+v %q", *h, m.set.Host), // the endpoint says by which version
		Interval: h.Interval, Timeout: h.Timeout, Rises: h.Rises, Falls: h.Falls,
		Ask: ask,
		Changed: func(name string, out bool, err error) {
			if out {
				m.Log.Warn("proxy: upstream taken out", "upstream", name, "error", err)
			} else {
				m.Log.Info("proxy: upstream works again", "upstream", name)
			}
		},
	}, nil
}

// speaks2 reports whether an address is asked by HTTP/2.
func (m *module) speaks2(name string) bool {
	return m.set.Version == "2" || strings.HasPrefix(name, "h2c://")
}

// ask2 asks for a path by HTTP/2 on c, whose deadline is the limit, and returns the status.
func ask2(c net.Conn, host, path string) (int, error) {
	dial := func(context.Context, string, string) (net.Conn, error) { return c, nil }
	t := http.Transport{DialContext: dial, DialTLSContext: dial, Protocols: new(http.Protocols), DisableCompression: true,
		MaxResponseHeaderBytes: healthRead}
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
		return 0, err
	}
	req.Header.Set("User-Agent", "lwango (health)")
	resp, err := t.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, healthRead)
	resp.Body.Close()
	return resp.StatusCode, nil
}

// statuses reads "200" or "200-399".
func statuses(text string) (least, most int, err error) {
	from, to, ranged := strings.Cut(text, "-")
	if !ranged {
		to = from
	}
	least, err = strconv.Atoi(from)
	if err == nil {
		most, err = strconv.Atoi(to)
	}
	if err != nil || least < 200 || most < least || most > 599 {
		err = fmt.Errorf(`expected one between 200 and 599, or a range as "200-399", not %q`, text)
	}
	return least, most, err
}

// Descriptors implements handlers.DescriptorHolder: each check has one connection at most.
func (s Settings) Descriptors() int {
	if s.Health.Path == "" {
		return 0
	}
	return len(s.Address)
}
