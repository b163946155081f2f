package fastcgi_test

import (
	"regexp"
	"testing"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
)

// TestRequestID: a script is told the id that the server's logs have, and not that of a client,
// unless the configuration says something else.
func TestRequestID(t *testing.T) {
	up := fcgitest.Start(t, "unix", tells("HTTP_X_REQUEST_ID", "HTTP_X_A"))
	for value, want := range map[string]string{
		"":         `^[0-9a-f]{32}\|b$`,
		"mine":     `^mine\|b$`,
		"{id}{id}": `^[0-9a-f]{64}\|b$`,
	} {
		p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
			s.Underscores = true
			if value != "" {
				s.Params = map[string]string{"HTTP_X_REQUEST_ID": value}
			}
		})
		seen := map[string]bool{}
		for range 3 {
			g := p.request("GET /x.php", []string{"X-Request-ID: theirs", "x_request_id: theirs",
				"Connection: X-Request-ID", "X-A: b"}, "")
			if !regexp.MustCompile(want).MatchString(g.body) || seen[g.body] && value != "mine" {
				t.Errorf("params %q: %+v", value, g)
			}
			seen[g.body] = true
		}
	}
}
