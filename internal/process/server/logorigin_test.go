package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
)

// TestLinesNameSites: what modules and layers log says of which site and which route it is.
func TestLinesNameSites(t *testing.T) {
	t.Parallel()
	var log logtext.Buffer
	src := source()
	src.Logger = logtext.Logger(t, &log)
	s := serve(t, src, `
[[listener]]
address = "127.0.0.1:0"
[[site]]
host = ["a.test", "www.a.test"]
auth = { request = "/p" }
[[site.route]]
prefix = "/p"
module = "proxy"
address = "unix:none.sock"
[[site.route]]
prefix = "/b"
module = "response"
[[site]]
[[site.route]]
prefix = "/f"
module = "fastcgi"
address = "unix:none.sock"
script_path = "/scripts"
check_file = false
`)
	for _, url := range [][2]string{{"www.a.test", "/b"}, {"b.test", "/f/x.php"}} {
		req := must.Get(http.NewRequest("GET", "http://"+s.at+url[1], nil))(t)
		req.Host = url[0]
		must.Body(t, must.Get(http.DefaultClient.Do(req))(t))
	}
	must.Get(src.Parse("t.conf", `
[[listener]]
address = "127.0.0.1:0"
proxy_protocol = true
trusted_proxies = "127.0.0.1"
[[site]]
https = "redirect"
`))(t)
	for _, want := range []string{`redirected for ever" site=* listener=127.0.0.1:0`,
		`msg="proxy: no answer" site=a.test route=/p request_id=`,
		`msg="auth: the answer of the route that is asked is neither 2xx nor 401 nor 403" site=a.test asked=/p `,
		`msg="fastcgi: no answer" site=* route=/f request_id=`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	}
}
