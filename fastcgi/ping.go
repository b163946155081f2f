package fastcgi

import (
	"io"
	"net"
	"strings"

	"github.com/lwango/lwango/fastcgi/internal/wire"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/wire/cgi"
)

// ping asks an application for a check, see reverseproxy.Route. PHP-FPM answers itself, in a
// worker, if the path is its ping.path or pm.status_path; otherwise the path is that of a script.
func (m *module) ping(c net.Conn, _ string) (status int, body []byte, err error) {
	health := &m.set.Health
	path, query, _ := strings.Cut(health.Path, "?")
	host := health.Host
	if host == "" {
		host = "localhost"
	}
	name := path
	if _, _, script := cgi.Split(path, m.set.SplitPath); script {
		name = m.current().root + path
	}
	var head wire.Head
	head.Begin(nil, false)
	for _, p := range [...][2]string{
		{"GATEWAY_INTERFACE", "CGI/1.1"}, {"SERVER_PROTOCOL", "HTTP/1.1"}, {"SERVER_SOFTWARE", "lwango"},
		{"REQUEST_METHOD", "GET"}, {"SCRIPT_NAME", path}, {"SCRIPT_FILENAME", name},
		{"REQUEST_URI", health.Path}, {"QUERY_STRING", query}, {"SERVER_NAME", host}, {"HTTP_HOST", host},
		{"HTTP_USER_AGENT", "lwango (health)"}, {"DOCUMENT_ROOT", m.current().root},
		{"CONTENT_LENGTH", "0"},
		{"REMOTE_ADDR", "127.0.0.1"}, {"REMOTE_PORT", "0"}, {"SERVER_ADDR", "127.0.0.1"},
		{"SERVER_PORT", "80"},
	} {
		head.Add(p[0], p[1])
	}
	request, err := head.Finish()
	if err == nil {
		_, err = c.Write(wire.AppendStdinEnd(request))
	}
	if err != nil {
		return 0, nil, err
	}
	var h cgi.Header
	var d wire.Decoder
	done, read := false, 0
	for buf := make([]byte, 4096); read < 2*reverseproxy.HealthRead; {
		n, err := c.Read(buf)
		read += n
		for in := buf[:n]; ; {
			t, data, used, err := d.Next(in)
			in = in[used:]
			switch {
			case err != nil:
				return 0, nil, err
			case t == wire.Stdout && !done:
				k, whole, err := h.Parse(data)
				if err != nil {
					return 0, nil, err
				}
				if done = whole; done {
					status, body = h.Status, append(body, data[k:]...)
				}
			case t == wire.Stdout:
				body = append(body, data...)
			case t == wire.EndRequest:
				if !done {
					return 0, nil, io.ErrUnexpectedEOF
				}
				return status, body, d.End().Err()
			}
			if t == 0 {
				break
			}
		}
		if err != nil {
			return 0, nil, err
		}
	}
	return status, body, nil // the status says enough
}
