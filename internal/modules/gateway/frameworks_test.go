package gateway_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

// TestFrameworks tries Flask and Django below a prefix, at uWSGI by uwsgi, SCGI and HTTP: links and
// redirects that they make, sessions, forms with a token, uploads, streams and errors.
func TestFrameworks(t *testing.T) {
	ci.Only(t, "it needs uWSGI with Flask and Django")
	for _, framework := range []string{"flask", "django"} {
		if _, err := os.Stat("/usr/lib/python3/dist-packages/" + framework); err != nil {
			ci.Lacks(t, framework+": apt-get install python3-"+framework)
		}
		t.Run(framework, func(t *testing.T) {
			addresses := startUWSGI(t, framework+"_app.py")
			for _, p := range protocols {
				if p.name == "scgi" && invariants.Enabled { // see TestUWSGI
					continue
				}
				t.Run(p.name, func(t *testing.T) {
					tryFramework(t, "http://"+serve(t, p, "/app", addresses[p.name][1:], nil).Addr)
				})
			}
			t.Run("http", func(t *testing.T) {
				h := must.Get(module.Build(t, proxy.Register, "proxy", handlers.Env{Prefix: "/app"},
					func(s *proxy.Settings) { s.Address, s.StripPrefix = addresses["http"][1:], true }))(t)
				// Django knows its prefix by the gateway alone, so its links are mapped back.
				tryFramework(t, "http://"+module.Start(t, modes.Direct, "/app", h).Addr)
			})
		})
	}
}

func tryFramework(t *testing.T, base string) {
	t.Helper()
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar}
	defer client.CloseIdleConnections()
	ask := func(method, path string, fields http.Header, body string) (*http.Response, string) {
		t.Helper()
		req := must.Get(http.NewRequest(method, base+path, strings.NewReader(body)))(t)
		for name, values := range fields {
			req.Header[name] = values
		}
		resp := must.Get(client.Do(req))(t)
		return resp, must.Body(t, resp)
	}
	host := strings.TrimPrefix(base, "http://")
	want := func(method, path string, fields http.Header, body string, status int, text string) {
		t.Helper()
		resp, got := ask(method, path, fields, body)
		if resp.StatusCode != status || text != "*" && got != text {
			t.Errorf("%s %s: %s %.300q, want %d %.300q", method, path, resp.Status, got, status, text)
		}
	}
	root := "/app"
	if _, got := ask("GET", "/app/hello/x", nil, ""); strings.HasPrefix(got, "x|||") {
		root = "" // Django behind HTTP
	}
	want("GET", "/app/hello/x?q=%20y", http.Header{"X-A": {"b"}}, "", 200,
		"x| y|"+root+"|"+host+"|http|127.0.0.1|b")
	want("HEAD", "/app/hello/x", nil, "", 200, "")
	if resp, got := ask("GET", "/app/go", nil, ""); resp.Request.URL.Path != "/app/hello/ä b" ||
		got != "ä b|1&2|"+root+"|"+host+"|http|127.0.0.1|" {
		t.Errorf("redirect to %s: %q", resp.Request.URL, got)
	}
	for i := range 3 {
		want("GET", "/app/count", nil, "", 200, fmt.Sprint(i+1))
	}
	_, token := ask("GET", "/app/token", nil, "")
	form := url.Values{"a": {"ü&=+ \n"}, "csrfmiddlewaretoken": {token}}
	typed := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	want("POST", "/app/form", typed, form.Encode(), 200, "ü&=+ \n")
	if token != "" {
		form.Set("csrfmiddlewaretoken", "x")
		want("POST", "/app/form", typed, form.Encode(), 403, "*")
	}
	var body bytes.Buffer
	file := modes.Noise(3 << 20)
	m := multipart.NewWriter(&body)
	_, _ = must.Get(m.CreateFormFile("f", "ä.bin"))(t).Write(file)
	m.Close()
	want("POST", "/app/upload", http.Header{"Content-Type": {m.FormDataContentType()}}, body.String(),
		200, fmt.Sprintf("ä.bin %x", sha256.Sum256(file)))
	if resp, got := ask("PUT", "/app/json", http.Header{"Content-Type": {"application/json"}},
		`{"a": [1, "b"]}`); resp.StatusCode != 200 ||
		strings.Join(strings.Fields(got), "") != `[1,"b"]` {
		t.Errorf("JSON: %s %q", resp.Status, got)
	}
	want("GET", "/app/stream", nil, "", 200, "data: 0\n\ndata: 1\n\ndata: 2\n\n")
	want("GET", "/app/error", nil, "", 500, "*")
	want("GET", "/app/none", nil, "", 404, "*")
	want("GET", "/app/go/", nil, "", 404, "*")
	want("POST", "/app/hello/x", nil, "", map[bool]int{true: 403, false: 405}[token != ""], "*")
}
