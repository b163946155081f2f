package fastcgi_test

import (
	"fmt"
	"net/textproto"
	"strings"
	"testing"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
)

// An exchange is a request, and what its client has to see of an application that makes no
// mistakes.
type exchange struct {
	name   string
	script fcgitest.Script
	change func(*fastcgi.Settings)

	line   string
	fields []string
	body   string

	status int
	want   string   // the body, for a status below 400
	have   []string // fields, as in a fcgitest.Case
}

// front makes a front controller, beside which there are no scripts.
func front(missing bool) func(*fastcgi.Settings) {
	return func(s *fastcgi.Settings) {
		s.CheckFile, s.TryFiles, s.FrontMissing = true, "front", missing
	}
}

func trusted(names ...string) func(*fastcgi.Settings) {
	return func(s *fastcgi.Settings) { s.TrustedFields = names }
}

func shortBodies(s *fastcgi.Settings) { s.MaxBodySize = 1000 }

// repeats is an application that answers with the request's method and body.
func repeats(c *fcgitest.Conn) {
	r := c.Read()
	c.Reply(okHead + r.Get("REQUEST_METHOD") + string(r.Body))
}

// pieces is an application that tells whether the head came in one write. With the invariants tag
// the loop shortens writes on purpose, so that the head may well come in two.
func pieces(c *fcgitest.Conn) {
	if r := c.Read(); r.First < r.HeadLen && !invariants.Enabled {
		c.Reply(okHead + fmt.Sprintf("in pieces: %d of %d", r.First, r.HeadLen))
	}
	c.Reply(okHead + "whole")
}

func says(stdout string) fcgitest.Script {
	return func(c *fcgitest.Conn) { c.Read(); c.Reply(stdout) }
}

const denied = "Status: 401\r\nWWW-Authenticate: Basic\r\nX-Powered-By: PHP/1\r\n\r\ntheirs"

var (
	chunked   = []string{"Transfer-Encoding: chunked"}
	forwarded = []string{"Connection: X-Forwarded-For, X-Own", "X-Forwarded-For: 192.0.2.1",
		"X-Own: y"}
	ways = tells("HTTP_X_FORWARDED_FOR", "HTTP_X_OWN")
)

// exchanges show what the settings, and the client's own mistakes, make of a request.
var exchanges = []exchange{
	// What is configured replaces what the client sends.
	{"parameters", tells("HTTP_X", "APP_ENV", "SERVER_NAME"), func(s *fastcgi.Settings) {
		s.Params = map[string]string{"HTTP_X": "mine", "APP_ENV": "prod",
			"SERVER_NAME": "example.org"}
	}, "GET /x.php", []string{"X: theirs"}, "", 200, "mine|prod|example.org", nil},
	{"a head", pieces, nil, "GET /x.php", nil, "", 200, "whole", nil},
	{"a head of 10 kB", pieces, nil, "GET /x.php", []string{"Y: " + strings.Repeat("y", 10000)}, "",
		200, "whole", nil},
	{"a parameter longer than a record", answers(""), func(s *fastcgi.Settings) {
		s.Params = map[string]string{"LONG": strings.Repeat("x", 70000)}
	}, "GET /x.php", nil, "", 431, "", nil},

	// What is dropped or refused, unless a setting allows it.
	{"a script that is missing", nil, front(false), "GET /no.php", nil, "", 404, "", nil},
	{"and is the front controller's", tells("SCRIPT_NAME"), front(true), "GET /no.php", nil, "",
		200, "/index.php", nil},
	{"an underscore", tells("HTTP_X_Y"), nil, "GET /x.php", []string{"X_Y: z"}, "", 200, "", nil},
	{"and one that is let through", tells("HTTP_X_Y"),
		func(s *fastcgi.Settings) { s.Underscores = true }, "GET /x.php", []string{"X_Y: z"}, "",
		200, "z", nil},

	// A client of a proxy in front cannot remove the proxy's fields, if the configuration trusts
	// them.
	{"trusted", ways, nil, "GET /x.php", forwarded, "", 200, "192.0.2.1|", nil},
	{"trusted by name", ways, trusted("x-own"), "GET /x.php", forwarded, "", 200, "|y", nil},
	{"nothing is trusted", ways, trusted(), "GET /x.php", forwarded, "", 200, "|", nil},

	// The application gets the methods of WebDAV, too, but never TRACE.
	{"PROPFIND", repeats, nil, "PROPFIND /x.php", nil, "body", 200, "PROPFINDbody", nil},
	{"REPORT", repeats, nil, "REPORT /x.php", nil, "body", 200, "REPORTbody", nil},
	{"MKCOL", repeats, nil, "MKCOL /x.php", nil, "body", 200, "MKCOLbody", nil},
	{"MOVE", repeats, nil, "MOVE /x.php", nil, "body", 200, "MOVEbody", nil},
	{"LOCK", repeats, nil, "LOCK /x.php", nil, "body", 200, "LOCKbody", nil},
	{"DELETE", repeats, nil, "DELETE /x.php", nil, "body", 200, "DELETEbody", nil},
	{"TRACE", nil, nil, "TRACE /x.php", nil, "", 405, "",
		[]string{"Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"}},
	{"PURGE", repeats, nil, "PURGE /x.php", nil, "body", 200, "PURGEbody", nil},
	{"M-SEARCH", repeats, nil, "M-SEARCH /x.php", nil, "body", 200, "M-SEARCHbody", nil},

	// The application is not asked if the client makes a mistake.
	{"a body that just fits", answers(""), shortBodies, "POST /x.php", nil,
		strings.Repeat("x", 1000), 200, "", nil},
	{"a body too long", nil, shortBodies, "POST /x.php", nil, strings.Repeat("x", 1001), 413, "",
		nil},
	{"chunked, fits", answers(""), shortBodies, "POST /x.php", chunked,
		"3e8\r\n" + strings.Repeat("x", 1000) + "\r\n0\r\n\r\n", 200, "", nil},
	{"chunked, too long", nil, shortBodies, "POST /x.php", chunked,
		"3e9\r\n" + strings.Repeat("x", 1001) + "\r\n0\r\n\r\n", 413, "", nil},
	{"chunked, bad", nil, nil, "POST /x.php", chunked, "what\r\n\r\n", 400, "", nil},
	{"asks first", nil, shortBodies, "POST /x.php", []string{"Expect: 100-continue",
		"Content-Length: 1001"}, "", 413, "", nil},
	{"NUL", nil, nil, "POST /x.php/%00", nil, "x", 400, "", nil},

	// Responses without content, with the server's own error page, with hidden fields.
	{"Reset Content", says("Status: 205\r\nContent-Length: 5\r\nX-Own: y\r\n\r\nhello"), nil,
		"GET /x.php", nil, "", 205, "", []string{"Content-Length: 0", "X-Own: y"}},
	{"hidden fields", says(denied),
		func(s *fastcgi.Settings) { s.HideHeader = []string{"x-powered-BY"} }, "GET /x.php", nil,
		"", 401, "theirs", []string{"X-Powered-By", "Content-Type", "WWW-Authenticate: Basic"}},
	{"errors of our own", says(denied), func(s *fastcgi.Settings) { s.InterceptErrors = true },
		"GET /x.php", nil, "", 401, "401 Unauthorized",
		[]string{"X-Powered-By", "WWW-Authenticate: Basic"}},
}

func TestExchanges(t *testing.T) {
	for _, tt := range exchanges {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
				if tt.script == nil {
					t.Error("the application is asked")
					return
				}
				tt.script(c)
			})
			p := serveFiles(t, "/", []string{up.Address}, map[string]string{"index.php": ""},
				func(s *fastcgi.Settings) {
					s.CheckFile = false
					if tt.change != nil {
						tt.change(s)
					}
				})
			for _, m := range []modes.Mode{modes.Direct, modes.HTTP2} {
				if m.HTTP2 {
					if strings.Contains(strings.Join(tt.fields, "\n"), "Connection:") ||
						strings.Contains(tt.name, "chunked, bad") {
						continue // it is not to be said there
					}
					p.Server = module.Start(t, m, "/", p.handler)
				}
				tt.ask(t, p)
			}
		})
	}
}

func (tt *exchange) ask(t *testing.T, p *proxy) {
	g := p.request(tt.line, tt.fields, tt.body)
	if g.err != nil || g.status != tt.status || g.status < 400 && g.body != tt.want ||
		g.status >= 400 && !strings.Contains(g.body, tt.want) {
		t.Errorf("%d %q, %v; log %s", g.status, g.body, g.err, p.log)
	}
	fcgitest.CheckFields(t, textproto.MIMEHeader(g.header), tt.have)
}
