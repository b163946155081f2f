package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
)

func TestPage(t *testing.T) {
	s := program.Start(t)
	for _, c := range []struct {
		method, path string
		status       int
		kind         string
	}{
		{"GET", "/", 200, "text/html; charset=utf-8"},
		{"GET", "/?room=garden", 200, "text/html; charset=utf-8"},
		{"HEAD", "/", 200, "text/html; charset=utf-8"},
		{"GET", "/chat.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/connection.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/log.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/outbox.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/style.css", 200, "text/css; charset=utf-8"},
		{"GET", "/icon.svg", 200, "image/svg+xml"},
		{"GET", "/nothing", 404, ""},
		{"GET", "/page", 404, ""},
		{"GET", "/page/../../main.go", 400, ""},
		{"POST", "/", 405, ""},
	} {
		req := must.Get(http.NewRequest(c.method, "http://"+s.Address+c.path, nil))(t)
		get := func() (*http.Response, string) {
			resp := must.Get(http.DefaultClient.Do(req))(t)
			return resp, must.Body(t, resp)
		}
		resp, body := get()
		if resp.StatusCode != c.status ||
			c.kind != "" && resp.Header.Get("Content-Type") != c.kind {
			t.Errorf("%s %s: %s, %s", c.method, c.path, resp.Status,
				resp.Header.Get("Content-Type"))
		}
		if c.status != 200 {
			continue
		}
		if got := resp.Header.Get("Content-Security-Policy"); got != policy ||
			resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: %v", c.method, c.path, resp.Header)
		}
		// The SVG's namespace is an address, too.
		if strings.Contains(body, "http://") && c.path != "/icon.svg" {
			t.Errorf("%s has something from elsewhere", c.path)
		}
		req.Header.Set("If-None-Match", resp.Header.Get("ETag"))
		if resp, _ := get(); resp.StatusCode != 304 {
			t.Errorf("%s %s again: %s", c.method, c.path, resp.Status)
		}
	}
}
