package server_test

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lwango/lwango/internal/test/must"
	testserver "github.com/lwango/lwango/internal/test/server"
)

// users is a file with the users ann and bob, whose passwords are "secret".
const users = "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nbob:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"

func basic(credentials string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(credentials))
}

// serveText serves the sites of a configuration whose folder has the file users.
func serveText(t *testing.T, text string) *testserver.Server {
	t.Helper()
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "users"), users)
	return sites(t, source(), dir, text)
}

// TestRulesWithAccess: a rule asks for a user, or limits, where its conditions hold. A request that
// passes goes on with the next rule.
func TestRulesWithAccess(t *testing.T) {
	const fixed = "[[site.route]]\nprefix = '/'\nmodule = 'response'\nbody = 'module'\n"
	const auth = "auth = { realm = 'staff', htpasswd = 'users' }\n"
	ann, eve := basic("ann:secret"), basic("eve:secret")
	type step struct{ line, field, want string }
	for _, tt := range []struct {
		name  string
		text  string
		steps []step
	}{
		{"auth", "[[site]]\n[[site.rule]]\npath = '/admin/**'\n" + auth + fixed, []step{
			{"GET /", "", "200 module"},
			{"GET /admin", "", "401 Basic realm=\"staff\", charset=\"UTF-8\""},
			{"GET /x/../%61dmin/x", eve, "401 Basic realm=\"staff\", charset=\"UTF-8\""},
			{"GET /admin", ann, "200 module"},
		}},
		{"it goes on", "[[site]]\n[[site.rule]]\n" + auth + "[[site.rule]]\npath = '/old'\ndeny = 410\n" +
			"[[site.rule]]\npath = '/late'\nset_headers = { www-authenticate = 'late' }\n" + fixed, []step{
			{"GET /old", "", "401 Basic realm=\"staff\", charset=\"UTF-8\""},
			{"GET /old", ann, "410"},
			{"GET /late", ann, "200 late module"},
			{"GET /late", "", "401 Basic realm=\"staff\", charset=\"UTF-8\""},
		}},
		{"before the rule's own action",
			"[[site]]\n[[site.rule]]\npath = '/old'\nredirect = '/new'\n" + auth + fixed, []step{
				{"GET /old", "", "401 Basic realm=\"staff\", charset=\"UTF-8\""},
				{"GET /old", ann, "302"},
			}},
		{"exists behind auth", "[[site]]\n[[site.rule]]\n" + auth +
			"[[site.rule]]\nexists = 'file'\nroot = '.'\ndeny = 404\n" + fixed, []step{
			{"GET /users", "", "401 Basic realm=\"staff\", charset=\"UTF-8\""},
			{"GET /none", "", "401 Basic realm=\"staff\", charset=\"UTF-8\""},
			{"GET /users", ann, "404"},
		}},
		{"limit", "[[site]]\n[[site.rule]]\nmethod = 'POST'\nlimit = { requests = '2/h' }\n" + fixed,
			[]step{
				{"POST /", "", "200 module"}, {"POST /", "", "200 module"}, {"POST /", "", "429"},
				{"GET /", "", "200 module"},
			}},
		{"networks and methods",
			"[[site]]\n[[site.rule]]\npath = '/in/**'\nlimit = { allow = '10.0.0.0/8' }\n" +
				"[[site.rule]]\npath = '/get'\nlimit = { methods = 'GET' }\n" + fixed, []step{
				{"GET /in/x", "", "403"}, {"PUT /get", "", "405"}, {"HEAD /get", "", "200"},
				{"GET /get", "", "200 module"},
			}},
		{"limit before auth", "[[site]]\n[[site.rule]]\nlimit = { requests = '1/h' }\n" + auth + fixed,
			[]step{
				{"GET /", eve, "401 Basic realm=\"staff\", charset=\"UTF-8\""}, {"GET /", ann, "429"},
			}},
		// The second rule leads to the first one again, which has let the request pass.
		{"once a request", "[[site]]\n" + fixed +
			"[[site.route.rule]]\nlimit = { requests = '2/h', connections = 1 }\n" +
			auth +
			"[[site.route.rule]]\npath = '/a'\nrewrite = '/b'\n[[site.route.rule]]\npath = '/b'\ndeny = " +
			"418\n", []step{
			{"GET /a", ann, "418"}, {"GET /c", ann, "200 module"}, {"GET /c", ann, "429"},
		}},
		{"a route's", "[[site]]\n" + fixed +
			"[[site.route]]\nprefix = '/in'\nhandler = 'echo'\n[[site.route.rule]]\n" +
			"not = { path = '/in/open' }\n" + auth, []step{
			{"GET /", "", "200 module"}, {"GET /in", "", "401 Basic realm=\"staff\", charset=\"UTF-8\""},
			{"POST /in/open", "", "200"}, {"POST /in/x", ann, "200"},
		}},
		{"two users", "[[site]]\n[[site.rule]]\n" + auth + "[[site.rule]]\npath = '/x'\n" + auth + fixed,
			[]step{
				{"GET /x", ann, "200 module"},
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serveText(t, tt.text)
			for i, step := range tt.steps {
				var fields []string
				if step.field != "" {
					fields = []string{step.field}
				}
				a := s.Request(step.line, fields, "")
				got := fmt.Sprint(a.StatusCode)
				for _, more := range []string{a.Header.Get("WWW-Authenticate"), a.Text} {
					if more != "" && !strings.HasPrefix(more, "<!") {
						got += " " + more
					}
				}
				if got != step.want {
					t.Errorf("step %d, %s: got %s, want %s", i+1, step.line, got, step.want)
				}
			}
		})
	}
}

// TestRulesWithAccessErrors: file, line and key, once each.
func TestRulesWithAccessErrors(t *testing.T) {
	for text, want := range map[string]string{
		"[[site]]\n[[site.rule]]\npath = '/a'\nauth = { realm = 'x' }": "t.conf:4: " +
			"site.rule.auth.htpasswd: " +
			"missing; expected the path of a file",
		"[[site]]\n[[site.rule]]\npath = '/a'\nlimit = { burst = 3 }": "t.conf:4: " +
			"site.rule.limit.burst: " +
			"needs the key requests, such as requests = \"10/s\"",
		"[[site]]\n[[site.rule]]\n[site.rule.limit]\nrequests = '10'": "t.conf:4: " +
			"site.rule.limit.requests: " +
			"expected 1 to 1000000 requests in a second, a minute or an hour, such as \"10/s\", \"100/m\" " +
			"or \"1000/h\", found \"10\"",
		"[[site]]\n[[site.rule]]\npath = '/a'\nlimit = { deny = 'x' }\ndeny = 404": "t.conf:4: " +
			"site.rule.limit.deny: ",
		route(
			"prefix = '/'\nhandler = 'echo'\n[[site.route.rule]]\nlimit = { connections = 1, burts = " +
				"3 }"): "t.conf:6: " +
			"site.route.rule.limit.burts: unknown key (did you mean burst?)",
	} {
		_, err := source().Parse("t.conf", text)
		if got := fmt.Sprint(err); !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
			t.Errorf("text:\n%s\n(-want +got):\n%s", text, cmp.Diff(want, got))
		}
	}
}
