package gateway

import (
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/wire/cgi"
)

// ping asks an application for a check, see reverseproxy.Route.
func (m *plain) ping(c net.Conn, _ string) (status int, body []byte, err error) {
	health := &m.settings.Health
	path, query, _ := strings.Cut(health.Path, "?")
	host := health.Host
	if host == "" {
		host = "localhost"
	}
	local := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	r := cgi.Request{Method: "GET", Target: health.Path, Query: query, Proto: "HTTP/1.1", Host: host,
		Remote: local, Local: local, Proxied: true, Info: path, Path: path, Server: host,
		Params: m.params, Fixed: m.fixed,
		Fields: cgi.List{{Name: "User-Agent", Value: "lwango (health)"}}}
	if rest, ok := strings.CutPrefix(path, m.prefix); ok && (rest == "" || rest[0] == '/') {
		r.Prefix, r.Info, r.Path = m.prefix, rest, rest
	}
	packet, err := m.framing.head(make([]byte, 0, 4096), &r, new(cgi.Vars))
	if err == nil {
		_, err = c.Write(packet)
	}
	if err != nil {
		return 0, nil, err
	}
	h := cgi.Header{StatusLine: true}
	done, read := false, 0
	for buf := make([]byte, 4096); read < 2*reverseproxy.HealthRead; {
		n, err := c.Read(buf)
		read += n
		in := buf[:n]
		for !done && len(in) > 0 {
			k, whole, err := h.Parse(in)
			if err != nil {
				return 0, nil, err
			}
			in = in[k:]
			if whole && h.Interim() {
				h.Reset()
			} else {
				done = whole
			}
		}
		if done {
			body = append(body, in...)
		}
		switch {
		case done && (err == io.EOF || h.Length >= 0 && int64(len(body)) >= h.Length):
			return h.Status, body, nil
		case err == io.EOF:
			return 0, nil, io.ErrUnexpectedEOF
		case err != nil:
			return 0, nil, err
		}
	}
	return h.Status, body, nil // the status says enough
}
