// Package oauth2proxy tries auth by a route against oauth2-proxy, which is built from its module.
package oauth2proxy

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/embedded"
	"github.com/lwango/lwango/internal/test/must"
)

// startService builds and starts oauth2-proxy with a user ann, whose password is pw. It returns its
// address, and a function that stops it.
func startService(t *testing.T) (at string, stop func()) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "oauth2-proxy")
	if out, err := exec.Command("go", "build", "-o", program,
		"github.com/oauth2-proxy/oauth2-proxy/v7").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		t.Fatal(err)
	}
	at = ln.Addr().String()
	ln.Close()
	sum := sha1.Sum([]byte("pw"))
	users := filepath.Join(dir, "users")
	line := "ann:{SHA}" + base64.StdEncoding.EncodeToString(sum[:]) + "\n"
	must.Do(t, os.WriteFile(users, []byte(line), 0o600))
	var log bytes.Buffer
	c := exec.Command(program, "--http-address="+at, "--reverse-proxy", "--trusted-proxy-ip=127.0.0.1",
		"--set-xauthrequest", "--upstream=static://202", "--provider=oidc", "--skip-oidc-discovery",
		"--oidc-issuer-url=http://127.0.0.1:1", "--login-url=http://127.0.0.1:1/login",
		"--redeem-url=http://127.0.0.1:1/token", "--oidc-jwks-url=http://127.0.0.1:1/keys",
		"--client-id=x", "--client-secret=y", "--email-domain=*", "--htpasswd-file="+users,
		"--cookie-secret="+strings.Repeat("0123456789abcdef", 2), "--cookie-secure=false")
	c.Stdout, c.Stderr = &log, &log
	must.Do(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	stop = func() { _ = c.Process.Kill(); <-ended }
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		answer, err := http.Get("http://" + at + "/ping")
		if err == nil {
			answer.Body.Close()
			return at, stop
		}
		select {
		case err := <-ended:
			t.Fatalf("oauth2-proxy has ended: %v\n%s", err, log.String())
		default:
		}
		if time.Now().After(until) {
			stop()
			t.Fatalf("oauth2-proxy does not listen\n%s", log.String())
		}
	}
}

// TestPortal: a stranger gets the page to log in, comes back to what he has asked for, and the
// application learns his name from the service alone.
func TestPortal(t *testing.T) {
	at, stop := startService(t)
	stopped := false
	defer func() {
		if !stopped {
			stop()
		}
	}()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL, r.Header["X-Auth-Request-User"], r.Header["X-Auth-Request-Email"],
			r.Header["X-User"])
	}))
	defer app.Close()
	file := filepath.Join(t.TempDir(), "lwango.conf")
	text := fmt.Sprintf(`[[site]]
[[site.route]]
prefix = "/oauth2"
module = "proxy"
address = "%[1]s"
[[site.route]]
prefix = "/check"
module = "proxy"
address = "%[1]s"
internal = true
[[site.route]]
prefix = "/"
module = "proxy"
address = "%[2]s"
request_headers = { X-User = "{user}" }
auth = { request = "/check", whole_answer = true, copy_headers = ["X-Auth-Request-User", "X-Auth-Request-Email"], answer_headers = ["Set-Cookie"], user_header = "X-Auth-Request-User", cache = "1m", cache_by = "host" }
`, at, app.Listener.Addr())
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	r, end := embedded.Start(t, lwango.Server{Addr: "127.0.0.1:0", File: file})
	defer end()
	base := "http://" + r.Addrs()[0]
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar}
	defer client.CloseIdleConnections()
	ask := func(method, target, body string) (status int, answer string) {
		t.Helper()
		req := must.Get(http.NewRequest(method, base+target, strings.NewReader(body)))(t)
		req.Header.Set("X-Auth-Request-User", "forged")
		req.Header.Set("X-Auth-Request-Email", "forged")
		if method == "POST" {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		a := must.Get(client.Do(req))(t)
		return a.StatusCode, must.Body(t, a)
	}
	status, page := ask("GET", "/app?x=1", "")
	if status != http.StatusForbidden || !strings.Contains(page, `value="/app?x=1"`) {
		t.Fatalf("a stranger: %d, %s", status, page)
	}
	form := url.Values{"username": {"ann"}, "password": {"wrong"}, "rd": {"/app?x=1"}}
	if status, page = ask("POST", "/oauth2/sign_in", form.Encode()); strings.Contains(page, "[ann]") {
		t.Fatalf("a wrong password: %d, %s", status, page)
	}
	form.Set("password", "pw")
	const want = "/app?x=1 [ann] [] [ann]"
	if status, page = ask("POST", "/oauth2/sign_in", form.Encode()); status != 200 || page != want {
		t.Fatalf("logged in: %d, %s", status, page)
	}
	// The service is gone: what it has said holds for ann, and for nobody else.
	stop()
	stopped = true
	if status, page = ask("GET", "/app?x=1", ""); status != 200 || page != want {
		t.Errorf("from the cache: %d, %s", status, page)
	}
	client.Jar = nil
	if status, page = ask("GET", "/app?x=1", ""); status != http.StatusBadGateway {
		t.Errorf("another one: %d, %s", status, page)
	}
}
