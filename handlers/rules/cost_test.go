package rules_test

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
)

// ten are rules with expressions as sites have them.
func ten() (all []rules.Rule) {
	for _, x := range []string{
		`^/page/(?<name>.+)$`, `^/wiki/(?<id>[^/]+)/edit$`, `\.(?:sql|bak|old|swp|dist)$`,
		`(?i)\.(?:exe|dll|bat)$`, `^/(?:conf|inc|bin|data)/.*`, `/wp-(?:admin|includes)/.*\.php$`,
		`^/([0-9]{4})/([0-9]{2})/(.+)$`, `^/index\.php/(.*)$`, `^/(en|de|fr)/(.*)$`, `xmlrpc\.php$`,
	} {
		all = append(all, rule(func(s *rules.Settings) { s.Regexp, s.Deny = x, 404 }))
	}
	return all
}

// others are ten rules that look at all else.
func others() (all []rules.Rule) {
	for _, change := range []func(*rules.Settings){
		func(s *rules.Settings) { s.Path = []string{"*.sql", "/data/**", "/**/.git/**", "/a/*/c?"} },
		func(s *rules.Settings) { s.Method = []string{"PUT", "DELETE"} },
		func(s *rules.Settings) { s.Host = []string{"a.test", "*.b.test"} },
		func(s *rules.Settings) { s.Scheme = "https" },
		func(s *rules.Settings) { s.Client = []string{"10.0.0.0/8", "fd00::/8"} },
		func(s *rules.Settings) {
			s.Header = map[string][]string{"User-Agent": {"*bot*", "~(?i)spider"}}
		},
		func(s *rules.Settings) { s.Cookie = map[string][]string{"session": {"x*"}} },
		func(s *rules.Settings) { s.Query = map[string][]string{"id": {"1", "2"}} },
		func(s *rules.Settings) { s.Not.Path = []string{"/assets/**"} },
		func(s *rules.Settings) { s.Regexp, s.Method = "^/assets/[0-9]+$", []string{"GET"} },
	} {
		all = append(all, rule(func(s *rules.Settings) { change(s); s.Deny = 404 }))
	}
	return all
}

// request is a request in memory.
type request struct{ path, query, host, agent, cookie []byte }

func (*request) Method() string                { return "GET" }
func (r *request) PathView() []byte            { return r.path }
func (r *request) SentPathView() []byte        { return r.path }
func (*request) OtherReadings() []conn.Reading { return nil }
func (*request) AppendQuery(dst []byte) []byte { return dst }
func (r *request) QueryView() []byte           { return r.query }
func (r *request) HostView() []byte            { return r.host }
func (*request) RemoteAddr() netip.AddrPort    { return netip.AddrPort{} }
func (*request) Secure() bool                  { return false }
func (*request) Prefix() string                { return "" }
func (*request) ClientVerify() string          { return "" }

func (*request) ClientCertificate() *x509.Certificate { return nil }
func (r *request) HeaderViewFrom(name string, from int) ([]byte, int) {
	switch {
	case from > 0:
	case name == "User-Agent":
		return r.agent, 1
	case name == "Cookie":
		return r.cookie, 1
	}
	return nil, -1
}

var asset = &request{path: []byte("/assets/css/site-2f3a9c.min.css"), query: []byte("v=12&x=3"),
	host: []byte("www.example.org:8080"), agent: []byte("Mozilla/5.0 (X11; Linux x86_64)"),
	cookie: []byte("a=b; theme=dark")}

// TestRulesAreFree: rules that are not for a request allocate nothing.
func TestRulesAreFree(t *testing.T) {
	ci.Without(t, invariants.Enabled, "checks allocate")
	for name, all := range map[string][]rules.Rule{"expressions": ten(), "others": others()} {
		s := start(t, handlers.Env{}, all, map[string][]rules.Rule{"/": nil})
		plain := start(t, handlers.Env{}, nil, map[string][]rules.Rule{"/": nil})
		raw := "GET /assets/css/site.css?v=12 HTTP/1.1\r\nHost: www.example.org\r\n" +
			"User-Agent: Mozilla/5.0\r\nCookie: a=b; theme=dark\r\n\r\n"
		if got, want := s.Allocs(raw), plain.Allocs(raw); got > want {
			t.Errorf("%s: %v allocations, without rules %v", name, got, want)
		}
		set := must.Get(rules.Compile(all, "", handlers.Env{}))(t)
		if n := testing.AllocsPerRun(100, func() { set.Holds(asset) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		if n := set.Holds(asset); n != 0 {
			t.Errorf("%s: %d rules are for the request", name, n)
		}
	}
}

func BenchmarkTenRules(b *testing.B) {
	for name, all := range map[string][]rules.Rule{"expressions": ten(), "others": others()} {
		set := must.Get(rules.Compile(all, "", handlers.Env{}))(b)
		for _, path := range []string{"/", "/assets/css/site-2f3a9c.min.css", "/2026/x/a.html"} {
			q := *asset
			q.path = []byte(path)
			b.Run(fmt.Sprintf("%s%s", name, path), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if set.Holds(&q) > 1 {
						b.Fatal("a rule is for the request")
					}
				}
			})
		}
	}
}
