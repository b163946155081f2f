package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestAccelRedirect: an application lets another route answer, which clients do not reach.
func TestAccelRedirect(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/x-own")
		h.Set("Content-Disposition", "attachment")
		h.Set("Set-Cookie", "a=b")
		h.Set("X-Own", "of the application")
		if to := r.URL.Query().Get("to"); to != "" {
			h.Set("X-Accel-Redirect", to)
			h.Set("X-Sendfile", "/none") // X-Accel-Redirect counts
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL, body)
	}))
	defer app.Close()
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "a b.txt"), "the file")
	address, log := serveProgram(t, server.NewProgram(config.Builtin()), strings.NewReplacer(
		"APP", app.Listener.Addr().String(), "DIR", dir).Replace(`
[[site]]
[[site.route]]
prefix = "/"
module = "proxy"
address = "APP"
max_conns = 1
accel_redirect = true
[[site.route]]
prefix = "/plain"
module = "proxy"
address = "APP"
[[site.route]]
prefix = "/files"
module = "serve_files"
path = "DIR"
internal = true
[[site.route]]
prefix = "/closed"
module = "serve_files"
path = "DIR"
limit = { deny = ["127.0.0.0/8"] }
`))
	for _, test := range []struct {
		method, path, ranges string
		status               int
		want                 string
	}{
		{"GET", "/files/a%20b.txt", "", 404, ""},
		{"GET", "/?to=/files/a%2520b.txt", "", 200, "the file"},
		{"POST", "/?to=/files/a%2520b.txt", "", 200, "the file"},
		{"HEAD", "/?to=/files/a%2520b.txt", "", 200, ""},
		{"GET", "/?to=/files/a%2520b.txt", "bytes=4-", 206, "file"},
		{"GET", "/?to=/files/none", "", 404, ""},
		{"GET", "/?to=/closed/a%2520b.txt", "", 403, ""},
		// by the only connection that there may be
		{"POST", "/?to=/other%3Fx=1", "", 200, "GET /other?x=1 "},
		{"GET", "/plain?to=/files/a%2520b.txt", "", 200, "GET /plain?to=/files/a%2520b.txt "},
		{"GET", "/?to=files", "", 500, ""},
		{"GET", "/?to=/../files", "", 500, ""},
	} {
		req, _ := http.NewRequest(test.method, "http://"+address+test.path, strings.NewReader("body"))
		if test.ranges != "" {
			req.Header.Set("Range", test.ranges)
		}
		if test.method != "POST" {
			req.Body, req.ContentLength = nil, 0
		}
		resp := must.Get(http.DefaultClient.Do(req))(t)
		body := must.Body(t, resp)
		if resp.StatusCode != test.status || test.status < 400 && body != test.want {
			t.Errorf("%s %s: %s, %q", test.method, test.path, resp.Status, body)
		}
		own, led := resp.Header.Get("Content-Type") == "application/x-own", strings.HasPrefix(test.path,
			"/?")
		if good := test.status < 400; own != (good && test.status != 0) ||
			led && good != (resp.Header.Get("Content-Disposition") != "") ||
			led && test.status != 500 && resp.Header.Get("Set-Cookie") != "a=b" ||
			strings.HasPrefix(test.want, "the file") && resp.Header.Get("X-Own") != "" {
			t.Errorf("%s %s: %v", test.method, test.path, resp.Header)
		}
	}
	wait.Until(t, "the log says why", func() bool {
		return strings.Count(log.String(), "X-Accel-Redirect or X-Sendfile cannot be followed") == 2
	})
	if text := log.String(); strings.Count(text, "level=ERROR") != 2 ||
		!strings.Contains(text, " to=files ") {
		t.Errorf("not a line for each, with where it leads:\n%s", text)
	}
}

// TestAccelRedirectInCircles: an application that leads to itself is asked eleven times.
func TestAccelRedirectInCircles(t *testing.T) {
	asked := 0
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("X-Accel-Redirect", "/again")
	}))
	defer app.Close()
	address, log := serveProgram(t, server.NewProgram(config.Builtin()), `
[[site]]
[[site.route]]
prefix = "/"
module = "proxy"
address = "`+app.Listener.Addr().String()+`"
accel_redirect = true
`)
	resp := must.Get(http.Get("http://" + address + "/"))(t)
	resp.Body.Close()
	if resp.StatusCode != 500 || asked != 11 {
		t.Errorf("%s, asked %d times", resp.Status, asked)
	}
	wait.Until(t, "the log says why", func() bool {
		return strings.Contains(log.String(), "rewritten 10 times")
	})
}

// TestAccelRedirectFields: the application's fields with all their values, in answers that they
// fit: several ranges have a type of their own, and a 304 has no content. A space in the path is
// one.
func TestAccelRedirectFields(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/x-own")
		h.Set("Content-Disposition", "attachment")
		h["Cache-Control"] = []string{"private", "no-store"}
		h.Set("X-Accel-Redirect", r.URL.Query().Get("to"))
	}))
	defer app.Close()
	dir := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(dir, "folder"), 0o700))
	must.Write(t, filepath.Join(dir, "a b.txt"), "0123456789")
	address, _ := serveProgram(t, server.NewProgram(config.Builtin()), strings.NewReplacer(
		"APP", app.Listener.Addr().String(), "DIR", dir).Replace(`
[[site]]
[[site.route]]
prefix = "/"
module = "proxy"
address = "APP"
accel_redirect = true
[[site.route]]
prefix = "/files"
module = "serve_files"
path = "DIR"
internal = true
cache_control = "max-age=60"
`))
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	tag := ""
	for _, test := range []struct {
		path, field string
		status      int
		want        string // Content-Type, Content-Disposition, Cache-Control
	}{
		{"/files/a%20b.txt", "", 200, `["application/x-own"] ["attachment"] ["private" "no-store"]`},
		{"/files/a%2520b.txt", "", 200, `["application/x-own"] ["attachment"] ["private" "no-store"]`},
		{"/files/a%20b.txt", "Range", 206, `multipart ["attachment"] ["private" "no-store"]`},
		{"/files/a%20b.txt", "If-None-Match", 304, `[] [] ["private" "no-store"]`},
		{"/files/folder", "", 301, `[] [] []`},
		{"/files/none", "", 404, `html [] []`},
	} {
		req, _ := http.NewRequest("GET", "http://"+address+"/?to="+test.path, nil)
		switch test.field {
		case "Range":
			req.Header.Set("Range", "bytes=0-1,4-5")
		case "If-None-Match":
			req.Header.Set("If-None-Match", tag)
		}
		resp := must.Get(client.Do(req))(t)
		body := must.Body(t, resp)
		h := resp.Header
		kind := fmt.Sprintf("%q", h["Content-Type"])
		if strings.Contains(kind, "html") {
			kind = "html"
		} else if strings.Contains(kind, "multipart/byteranges; boundary=") {
			kind = "multipart"
		}
		got := fmt.Sprintf("%s %q %q", kind, h["Content-Disposition"], h["Cache-Control"])
		if resp.StatusCode != test.status || got != test.want {
			t.Errorf("%s, %s: %s, %s, want %s", test.path, test.field, resp.Status, got, test.want)
		}
		if resp.StatusCode == 200 {
			tag = h.Get("ETag")
		}
		if kind == "multipart" && strings.Count(body, "Content-Range: bytes ") != 2 {
			t.Errorf("%q", body)
		}
	}
}
