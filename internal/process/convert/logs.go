package convert

import (
	"strings"
)

// logVariables are those that a line of the access log has by another name than a text of a
// request.
var logVariables = map[string]string{"remote_addr": "{remote}", "time_local": "{time}",
	"time_iso8601": "{time_iso8601}", "request": "{request}", "status": "{status}",
	"body_bytes_sent": "{bytes}", "bytes_sent": "{bytes}", "http_referer": "{referer}",
	"http_user_agent": "{user_agent}", "request_time": "{duration}", "request_length": "{bytes_in}",
	"upstream_addr": "{upstream_address}", "upstream_response_time": "{upstream_time}",
	"upstream_header_time": "{upstream_first_byte}", "upstream_connect_time": "{upstream_connect}",
	"ssl_protocol": "{tls_version}", "ssl_cipher": "{tls_cipher}", "request_id": "{request_id}",
	"upstream_cache_status": "{cache}", "server_protocol": "{proto}", "request_uri": "{target}",
	"msec": "{time_iso8601}", "uri": "{target}"}

// siteLog sets the access log of a site that has one of its own.
func (c *converter) siteLog(out *site, s *server) {
	if s.scope.has("access_log") {
		c.accessLog(s.scope, s.scope.take("access_log"), func(t *table) {
			out.set("access_log", t)
		})
	}
}

// accessLog makes a table of the first access_log, which set puts in its place.
func (c *converter) accessLog(s *scope, all []*directive, set func(*table)) {
	d := all[0]
	for _, more := range all[1:] {
		c.left(more, "a site has one log")
	}
	t := new(table)
	path := d.arg(0)
	switch {
	case path == "off":
		c.left(d, "a site without a log of its own has that of the whole server")
		return
	case strings.Contains(path, "$"):
		c.left(d, "the path of a log has no variables")
		return
	case strings.HasPrefix(path, "syslog:"):
		server := ""
		for part := range strings.SplitSeq(strings.TrimPrefix(path, "syslog:"), ",") {
			if value, ok := strings.CutPrefix(part, "server="); ok {
				server = value
			}
		}
		if !strings.HasPrefix(server, "unix:") && !strings.Contains(strings.Trim(server, "[]"), ":") {
			server += ":514"
		}
		t.set("path", "syslog:"+server)
	case path == "/dev/stdout":
		t.set("path", "stdout:")
	case path == "/dev/stderr":
		t.set("path", "stderr:")
	default:
		t.set("path", c.prefixPath(path))
	}
	for _, a := range d.rest(1) {
		key, value, _ := strings.Cut(a, "=")
		switch {
		case value == "" && key != "combined":
			c.logFormat(t, s, d, key)
		case key == "if":
			c.left(d, "all requests have a line")
		}
	}
	set(t)
}

func (c *converter) logFormat(t *table, s *scope, d *directive, name string) {
	for _, f := range c.http.own("log_format") {
		if f.arg(0) != name {
			continue
		}
		f.done = true
		args := f.rest(1)
		if len(args) > 0 && strings.HasPrefix(args[0], "escape=") {
			args = args[1:]
		}
		text := strings.Join(args, "")
		unknown := ""
		format := variable.ReplaceAllStringFunc(text, func(v string) string {
			name := strings.Trim(v[1:], "{}")
			if p, ok := logVariables[name]; ok {
				return p
			}
			value, err := c.variable(s, name, nil)
			if err != nil {
				unknown = name
				return "-"
			}
			return value
		})
		if unknown != "" {
			c.left(f, "- stands for variables without a placeholder, such as $"+unknown)
		}
		switch format {
		case `{remote} - {user} [{time}] "{request}" {status} {bytes} "{referer}" "{user_agent}"`:
			return
		}
		t.set("format", format)
		return
	}
	c.left(d, "there is no such format")
}
