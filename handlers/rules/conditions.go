package rules

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/glob"
	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/template"
)

// Asked is what conditions look at: a conn.RequestLayer, or a Sample.
type Asked interface {
	Method() string
	PathView() []byte
	SentPathView() []byte
	OtherReadings() []conn.Reading
	QueryView() []byte
	AppendQuery(dst []byte) []byte
	HostView() []byte
	HeaderViewFrom(name string, from int) (value []byte, next int)
	RemoteAddr() netip.AddrPort
	Secure() bool
	Prefix() string
	ClientVerify() string
	ClientCertificate() *x509.Certificate
}

// condition is one thing that must be true. It does not change, and hold allocates nothing as long
// as it is false, but for what a disk has to be asked for.
type condition interface {
	hold(q Asked, path []byte) (bool, error) // path is a reading of q's, see rule.fails

	// In words, for Explain: the key, what it wants, and what the request has.
	key() string
	wants() string
	found(q Asked, path []byte) string
}

// reads reports whether a condition depends on the reading of the path.
func reads(c condition) bool {
	switch c := c.(type) {
	case negated:
		return reads(c.condition)
	case paths, pathExpression:
		return true
	}
	return false
}

// cost is the order in which conditions are asked.
func cost(c condition) int {
	switch c := c.(type) {
	case negated:
		return cost(c.condition)
	case methods, scheme:
		return 0
	case paths:
		return 1
	case pathExpression:
		return 2
	case *exists:
		return 4
	}
	return 3
}

// allConditions makes the conditions of a rule, in the order in which they are asked.
func (c *compiler) allConditions(in, not *Conditions,
	folder *sysio.Folder) ([]condition, *expression) {
	all, x := c.conditions("", in, folder)
	none, _ := c.conditions("not.", not, folder)
	for _, n := range none {
		all = append(all, negated{n})
	}
	slices.SortStableFunc(all, func(a, b condition) int { return cost(a) - cost(b) })
	return all, x
}

// conditions makes those of one table; prefix is what stands before their keys in errors.
func (c *compiler) conditions(prefix string, in *Conditions, folder *sysio.Folder) (all []condition,
	x *expression) {
	if len(in.Method) > 0 {
		for _, m := range in.Method {
			if !http1.ValidToken(m) || m != strings.ToUpper(m) {
				c.wrongf(prefix+"method", "expected a method in upper case, such as GET, not %q", m)
			}
		}
		all = append(all, methods(in.Method))
	}
	if in.Scheme != "" {
		all = append(all, scheme(in.Scheme))
	}
	if len(in.Path) > 0 {
		var globs paths
		for _, text := range in.Path {
			g, err := glob.Parse(text)
			switch {
			case errors.Is(err, glob.ErrQuery):
				err = fmt.Errorf("%w; write query = { name = \"value\" }", err)
			case errors.Is(err, glob.ErrSyntax):
				err = fmt.Errorf("%w, or an expression (regexp)", err)
			}
			if err != nil {
				c.wrong(prefix+"path", err)
				continue
			}
			globs = append(globs, g)
		}
		all = append(all, globs)
	}
	if in.Regexp != "" {
		var err error
		if x, err = parseExpression(in.Regexp); err != nil {
			c.wrong(prefix+"regexp", err)
			x = nil
		} else {
			all = append(all, pathExpression{x})
		}
	}
	if len(in.Host) > 0 {
		set, err := handlers.NewHosts(in.Host)
		if err != nil {
			c.wrong(prefix+"host", err)
		}
		all = append(all, &hosts{set, in.Host})
	}
	if len(in.Client) > 0 {
		set, err := networks.Parse(in.Client)
		if err != nil {
			c.wrong(prefix+"client", err)
		}
		all = append(all, &clients{set, in.Client})
	}
	for _, v := range []struct {
		key  string
		text []string
		each func(q Asked, name string, php bool, f func([]byte) bool) bool
	}{{"cert_verify", in.CertVerify, eachVerify}, {"cert_subject", in.CertSubject, eachSubject},
		{"cert_fingerprint", in.CertFingerprint, eachFingerprint}} {
		if len(v.text) > 0 {
			all = append(all, c.values(prefix+v.key, &values{kind: v.key, text: v.text, each: v.each}))
		}
	}
	for _, v := range []struct {
		key    string
		values map[string][]string
		each   func(q Asked, name string, php bool, f func([]byte) bool) bool
	}{{"header", in.Header, eachField}, {"cookie", in.Cookie, eachCookie},
		{"query", in.Query, eachParameter}} {
		for _, name := range slices.Sorted(maps.Keys(v.values)) {
			if v.key != "query" && !http1.ValidToken(name) {
				c.wrongf(prefix+v.key, "%q is not a name of a %s", name, v.key)
			}
			all = append(all, c.values(prefix+v.key+"."+name,
				&values{kind: v.key, name: name, text: v.values[name], each: v.each}))
		}
	}
	if len(in.Exists) > 0 {
		all = append(all, &exists{folder, in.Exists})
	}
	return all, x
}

// values completes a condition of that key.
func (c *compiler) values(key string, one *values) *values {
	one.test = one.match
	for _, text := range one.text {
		p, err := parsePattern(text)
		if err != nil {
			c.wrong(key, err)
			continue
		}
		one.patterns = append(one.patterns, p)
	}
	if len(one.text) == 0 {
		c.wrongf(key, `expected a pattern, such as "*"`)
	}
	return one
}

type negated struct{ condition }

func (c negated) hold(q Asked, path []byte) (bool, error) {
	switch c := c.condition.(type) {
	case methods:
		return !slices.Contains(c, q.Method()), nil
	case *values:
		return !c.each(q, c.name, false, c.test), nil
	}
	hold, err := c.condition.hold(q, path)
	return !hold, err
}

func (c negated) key() string   { return "not." + c.condition.key() }
func (c negated) wants() string { return "anything but " + c.condition.wants() }

// methods hold for any spelling of them, and their negation for all but the very ones. The case of
// a method matters (RFC 9110 section 9.1), so `post` is not POST; but there are applications that
// take it for POST, and one of these must not get what a rule denies.
type methods []string

func (c methods) hold(q Asked, _ []byte) (bool, error) {
	return slices.ContainsFunc(c, func(m string) bool { return strings.EqualFold(m, q.Method()) }), nil
}

func (c methods) key() string                    { return "method" }
func (c methods) wants() string                  { return strings.Join(c, " or ") }
func (c methods) found(q Asked, _ []byte) string { return "it is " + q.Method() }

type scheme string

func (c scheme) hold(q Asked, _ []byte) (bool, error) { return schemeOf(q) == string(c), nil }
func (c scheme) key() string                          { return "scheme" }
func (c scheme) wants() string                        { return string(c) }
func (c scheme) found(q Asked, _ []byte) string       { return "it is " + schemeOf(q) }

func schemeOf(q Asked) string {
	if q.Secure() {
		return "https"
	}
	return "http"
}

type paths []*glob.Glob

func (c paths) hold(_ Asked, path []byte) (bool, error) {
	for _, g := range c {
		if g.MatchBytes(path) {
			return true, nil
		}
	}
	return false, nil
}

func (c paths) key() string { return "path" }

func (c paths) wants() string {
	var texts []string
	for _, g := range c {
		texts = append(texts, g.String())
	}
	return quoted(texts)
}

func (c paths) found(_ Asked, path []byte) string { return fmt.Sprintf("it is %q", shown(path)) }

type pathExpression struct{ *expression }

func (c pathExpression) hold(_ Asked, path []byte) (bool, error) { return c.match(path), nil }
func (c pathExpression) key() string                             { return "regexp" }
func (c pathExpression) wants() string {
	return template.Clip(c.re.String())
}

func (c pathExpression) found(_ Asked, path []byte) string {
	return fmt.Sprintf("the path is %q", shown(path))
}

// shown returns a reading of a path for people.
func shown(path []byte) string {
	return strings.ReplaceAll(string(path), http1.EncodedSlash, "%2F")
}

type hosts struct {
	set  *handlers.Hosts
	text []string
}

func (c *hosts) hold(q Asked, _ []byte) (bool, error) {
	host := q.HostView()
	return len(host) > 0 && c.set.Has(host), nil
}

func (c *hosts) key() string                    { return "host" }
func (c *hosts) wants() string                  { return strings.Join(c.text, " or ") }
func (c *hosts) found(q Asked, _ []byte) string { return fmt.Sprintf("it is %q", q.HostView()) }

type clients struct {
	set  *networks.Set
	text []string
}

func (c *clients) hold(q Asked, _ []byte) (bool, error) {
	if s, ok := q.(*Sample); ok && !s.Address.IsValid() {
		return false, nil // it has no client, while a request without an address is a UNIX socket's
	}
	return c.set.Contains(q.RemoteAddr().Addr()), nil
}

func (c *clients) key() string   { return "client" }
func (c *clients) wants() string { return strings.Join(c.text, " or ") }

func (c *clients) found(q Asked, _ []byte) string {
	if addr := q.RemoteAddr(); addr.IsValid() {
		return "it is " + addr.Addr().String()
	}
	return "it has no address"
}

func quoted(texts []string) string {
	all := make([]string, len(texts))
	for i, t := range texts {
		all[i] = fmt.Sprintf("%q", t)
	}
	return strings.Join(all, " or ")
}

// Sample is a request that is only thought of, for Explain.
type Sample struct {
	Verb    string // the method; empty: GET
	Host    string
	Path    string // decoded and clean
	Raw     string // what Path was made of; empty: Path
	Query   string // raw
	HTTPS   bool
	Route   string         // the prefix of the route
	Address netip.AddrPort // the client's
	Header  http.Header
}

// Method implements Asked, as the methods below do.
func (s *Sample) Method() string { return cmp.Or(s.Verb, http.MethodGet) }

// PathView is the path.
func (s *Sample) PathView() []byte { return []byte(s.Path) }

// SentPathView is the path as it goes on.
func (s *Sample) SentPathView() []byte {
	if s.Raw == "" {
		return http1.AppendPath(nil, []byte(s.Path))
	}
	return http1.Sent([]byte(s.Raw))
}

// OtherReadings are the readings of the path but Path.
func (s *Sample) OtherReadings() []conn.Reading { return conn.ReadingsOf(s.SentPathView()) }

// AppendQuery appends the query with its question mark.
func (s *Sample) AppendQuery(dst []byte) []byte {
	if s.Query != "" {
		dst = append(append(dst, '?'), s.Query...)
	}
	return dst
}

// QueryView is the query.
func (s *Sample) QueryView() []byte { return []byte(s.Query) }

// ClientVerify is empty: no certificate was asked for.
func (s *Sample) ClientVerify() string { return "" }

// ClientCertificate is nil.
func (s *Sample) ClientCertificate() *x509.Certificate { return nil }

// HostView is the host, maybe with a port.
func (s *Sample) HostView() []byte { return []byte(s.Host) }

// RemoteAddr is the client's address.
func (s *Sample) RemoteAddr() netip.AddrPort { return s.Address }

// Secure reports whether it is https.
func (s *Sample) Secure() bool { return s.HTTPS }

// Prefix is that of the route.
func (s *Sample) Prefix() string { return s.Route }

// HeaderViewFrom is a field of the header; from counts those of the name.
func (s *Sample) HeaderViewFrom(name string, from int) (value []byte, next int) {
	if v := s.Header.Values(name); from < len(v) {
		return []byte(v[from]), from + 1
	}
	return nil, -1
}
