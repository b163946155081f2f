package server_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestInForceAnswers: a server that is started with what -T prints of a configuration answers as
// one that is started with the configuration. Which settings it has, internal/process/config tests.
func TestInForceAnswers(t *testing.T) {
	top := must.Get(filepath.Abs("../../.."))(t)
	ca := certs.New(t)
	cert, key := ca.Files(ca.Issue(time.Hour, "a.test"))
	pair := fmt.Sprintf("{ cert = %q, key = %q }", cert, key)
	const page = "[[site]]\n[[site.route]]\nprefix = \"/\"\nmodule = \"response\"\nbody = \"x\"\n"
	files := map[string]string{"tls.conf": "[[listener]]\naddress = \"127.0.0.1:0\"\ntls = " + pair +
		"\n" +
		"[[listener]]\naddress = \"127.0.0.2:0\"\nhttp2 = false\ntls = " + pair + "\n" +
		"[[listener]]\naddress = \"127.0.0.3:0\"\nhttp2 = true\n[[listener]]\naddress = " +
		"\"127.0.0.4:0\"\n" + page +
		"[[site]]\nhost = \"a.test\"\nhttps = \"redirect\"\nhsts = { max_age = \"1h\" }\n" +
		strings.TrimPrefix(page, "[[site]]\n")}
	for _, name := range []string{"lwango.conf", "samples/php/lwango.conf", "contrib/container.conf",
		"contrib/deb/lwango.conf"} {
		files[name] = string(must.Get(os.ReadFile(filepath.Join(top, name)))(t))
	}
	address := regexp.MustCompile(`(?m)^address = "[^"]*:80(80)?"`)
	for name, text := range files {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if name != "tls.conf" {
				dir = beside(t, filepath.Join(top, filepath.Dir(name)))
			}
			must.Do(t, os.MkdirAll(filepath.Join(dir, "www"), 0o700))
			text := address.ReplaceAllString(text, `address = "127.0.0.1:0"`)
			text = strings.NewReplacer(`"/www"`, `"www"`, "/var/www/html", "www", `"stderr:"`,
				`"access.log"`, "/var/log/lwango/", "").Replace(text)
			text = regexp.MustCompile(`(?m)^pid_file.*`).ReplaceAllString(text, "")
			var servers []*running
			for _, text := range []string{text, ""} {
				src := source()
				src.File = filepath.Join(dir, "own.conf")
				if text == "" {
					var shown bytes.Buffer
					c, err := src.Load()
					if err == nil {
						err = c.WriteInForce(&shown, src)
					}
					must.Do(t, err)
					text = shown.String()
				}
				if !strings.Contains(text, "[[listener]]") {
					text += "\n[[listener]]\naddress = \"127.0.0.1:0\"\n"
				}
				text = strings.ReplaceAll(text, `"*:8080"`, `"127.0.0.1:0"`)
				servers = append(servers, serve(t, src, text))
			}
			if diff := cmp.Diff(found(servers[0]), found(servers[1])); diff != "" {
				t.Errorf("-what the configuration is +what -T prints of it:\n%s", diff)
			}
		})
	}
}

// found is what clients find at the listeners of a server.
func found(s *running) (all []string) {
	varying := []string{"Date", "X-Request-Id", "Etag", "Last-Modified"}
	var ports []string
	for i, at := range s.Addresses() {
		_, port, _ := net.SplitHostPort(at)
		ports = append(ports, ":"+port, fmt.Sprint(":PORT", i))
	}
	for _, at := range s.Addresses() {
		host, _, _ := net.SplitHostPort(at)
		add := func(format string, args ...any) {
			all = append(all, host+" "+strings.NewReplacer(ports...).Replace(fmt.Sprintf(format, args...)))
		}
		dial := func() net.Conn {
			c := must.Dial(s.t, "tcp", at)
			_ = c.SetDeadline(time.Now().Add(wait.Patience))
			return c
		}
		scheme := "http"
		for _, protocols := range [][]string{{"h2", "http/1.1"}, {"http/1.1"}, nil} {
			c := tls.Client(dial(),
				&tls.Config{ServerName: "a.test", InsecureSkipVerify: true, NextProtos: protocols})
			if err := c.Handshake(); err != nil {
				c.Close()
				break
			}
			scheme = "https"
			state := c.ConnectionState()
			add("%q: %x %s", protocols, state.Version, state.NegotiatedProtocol)
			c.Close()
		}
		if scheme == "http" {
			c := dial()
			_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
			first := make([]byte, 9)
			_, err := io.ReadFull(c, first)
			add("with prior knowledge: %q %v", first, err)
			c.Close()
		}
		client := http.Client{Timeout: wait.Patience,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{DisableKeepAlives: true,
				TLSClientConfig: &tls.Config{ServerName: "a.test", InsecureSkipVerify: true}}}
		for _, ask := range []string{"GET /", "GET /index.html", "GET /none", "HEAD /", "POST /",
			"OPTIONS /x", "GET /status/json"} {
			for _, name := range []string{"a.test", "other.test"} {
				method, path, _ := strings.Cut(ask, " ")
				req := must.Get(http.NewRequest(method, scheme+"://"+at+path, nil))(s.t)
				req.Host = name
				resp := must.Get(client.Do(req))(s.t)
				body := must.Body(s.t, resp)
				for _, field := range varying {
					resp.Header.Del(field)
				}
				if path == "/status/json" {
					body = ""
					resp.Header.Del("Content-Length")
				}
				var fields []string
				for field, values := range resp.Header {
					fields = append(fields, fmt.Sprint(field, values))
				}
				slices.Sort(fields)
				add("%s of %s: %s %q %q", ask, name, resp.Status, fields, body)
			}
		}
	}
	return all
}
