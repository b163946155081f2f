// Package rules does with requests what a configuration says in order: it looks at what a request
// is (conditions), and denies, redirects or rewrites it, or changes the header of its answer.
//
//	[[site.rule]]
//	path = ["/data/**", "/conf/**"]
//	deny = 403
//
//	rules.go       settings, compilation
//	chain.go       the rules of a request, one after the other
//	conditions.go  conditions of a rule
//	when.go        When: conditions for other things than rules
//	values.go      fields, cookies and parameters
//	exists.go      what lies in a folder
//	expression.go  regular expressions, with a filter before them
//	heads.go       the first octets of all texts that a regular expression matches, for the filter
//	explain.go     what the rules would do with a request, in words
package rules

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/glob"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/placeholder"
)

// Conditions are what must be true of a request. Of the values of one key, one is enough.
type Conditions struct {
	// Path are globs, one of which must match the path.
	Path []string `toml:"path"`
	// Regexp must match the path; its groups are placeholders.
	Regexp string `toml:"regexp"`
	// Method must be one of these, in any case.
	Method []string `toml:"method"`
	// Host must be one of these.
	Host []string `toml:"host"`
	// Scheme must be that of the request.
	Scheme string `toml:"scheme" oneof:"http https"`
	// Client are networks, one of which the client must be in.
	Client []string `toml:"client"`
	// Header are fields with globs of their values.
	Header map[string][]string `toml:"header"`
	// Cookie are cookies with globs of their values.
	Cookie map[string][]string `toml:"cookie"`
	// Query are parameters of the query with globs of their values.
	Query map[string][]string `toml:"query"`
	// CertVerify are globs of the result of the verification of the client's certificate: SUCCESS,
	// NONE, FAILED:reason, or nothing where the client was not asked for one.
	CertVerify []string `toml:"cert_verify"`
	// CertSubject are globs of the subject of the client's certificate, which must be verified.
	CertSubject []string `toml:"cert_subject"`
	// CertFingerprint are globs of the SHA-256 of the client's certificate, verified or not.
	CertFingerprint []string `toml:"cert_fingerprint"`
	// Exists is what the path must be below root: a file, a folder, or neither.
	Exists []string `toml:"exists" oneof:"file folder no"`
}

// Settings are the keys of a rule.
type Settings struct {
	Conditions `toml:",inline"`

	// Not are conditions none of which may be true.
	Not Conditions `toml:"not"`
	// Root is the folder for exists.
	Root string `toml:"root"`

	// One of these at most, and the rules end there.

	// Deny answers with this status; 444 closes the connection without an answer.
	Deny int `toml:"deny" min:"400" max:"599"`
	// Rewrite goes on with this path and query.
	Rewrite string `toml:"rewrite"`
	// Redirect sends the client there.
	Redirect string `toml:"redirect"`

	// Status is of redirect; 302 by default.
	Status int `toml:"status" min:"300" max:"308" default:"302"`

	// The others go on.

	// SetHeaders are fields of the answer, in place of those of these names.
	SetHeaders map[string][]string `toml:"set_headers"`
	// AddHeaders are fields of the answer, beside those of these names.
	AddHeaders map[string][]string `toml:"add_headers"`
	// RemoveHeaders are names of fields that the answer does not get.
	RemoveHeaders []string `toml:"remove_headers"`
	// Answer is for which answers the header changes; by default for all.
	Answer Answer `toml:"answer"`
	// CacheControl is Cache-Control of the answer.
	CacheControl string `toml:"cache_control"`
}

// Answer are conditions of an answer, all of which must be true. Of the values of one key, one is
// enough.
type Answer struct {
	// Status are statuses, such as "404" or "5xx".
	Status []string `toml:"status"`
	// Type are globs of the media type, such as "image/*".
	Type []string `toml:"type"`
}

// compile makes a test of the conditions; nil: there are none.
func (a *Answer) compile() (holds func(resp *conn.Response, status int) bool, err error) {
	var statuses [600]bool
	for _, text := range a.Status {
		class, isClass := strings.CutSuffix(text, "xx")
		n, err := strconv.Atoi(text)
		if isClass {
			n, err = strconv.Atoi(class + "00")
		}
		if err != nil || len(text) != 3 || n < 200 || n > 599 {
			return nil, handlers.BadKey("status", `expected a status such as "404" or "5xx", not %q`, text)
		}
		statuses[n] = true
		for k := n + 1; isClass && k < n+100; k++ {
			statuses[k] = true
		}
	}
	var types []glob.Value
	for _, text := range a.Type {
		types = append(types, glob.NewValue(strings.ToLower(text)))
	}
	if len(a.Status)+len(types) == 0 {
		return nil, nil
	}
	return func(resp *conn.Response, status int) bool {
		if len(a.Status) > 0 && (status >= len(statuses) || !statuses[status]) {
			return false
		}
		if types == nil {
			return true
		}
		media, _, _ := strings.Cut(resp.ContentType(), ";")
		media = strings.ToLower(strings.TrimSpace(media))
		return slices.ContainsFunc(types, func(g glob.Value) bool { return g.Match([]byte(media)) })
	}, nil
}

// Rule is a rule with its place in the configuration.
type Rule struct {
	Settings

	Name string // for the log, such as "rule 2 (lwango.conf:17)"

	// Around is what other packages do to a request for which the conditions hold: it wraps all
	// that comes behind the conditions. nil: nothing.
	Around handlers.Middleware

	Asks string // what Around asks of a request, in words, for Explain
}

// Error is what is wrong with a rule.
type Error struct {
	Rule int    // its index
	Key  string // "not.path" for one of the conditions in `not`
	Err  error
}

// Error gives the rule, counted from 1, the key and the cause.
func (e *Error) Error() string { return fmt.Sprintf("rule %d: %s: %v", e.Rule+1, e.Key, e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ErrNothing is the cause where a rule has no key that says what it does.
var ErrNothing = errors.New("does nothing: expected deny, rewrite, redirect, auth, limit, " +
	"set_headers, add_headers, remove_headers or cache_control")

// Set is the rules of a site or of a route. It does not change.
type Set struct {
	rules []rule
	env   handlers.Env
	route bool
}

// rule is a Rule made ready.
type rule struct {
	name       string
	conditions []condition
	expression *expression // whose groups the templates use; nil: none

	hook    conn.HeadHook // nil: the header stays as it is
	grouped func(req *conn.Request, resp *conn.Response, status int, groups [][]byte)

	around handlers.Middleware

	deny     int                  // 0: not denied
	redirect *placeholder.Address // nil: not redirected
	status   int
	rewrite  *placeholder.Address // nil: not rewritten
	asks     string               // what around asks, in words
	actions  string               // in words, those that go on
}

// Compile makes the rules of a site, for which env.Prefix is empty, or of a route. folder is the
// root of `exists` where a rule names none; it may be empty. The error joins one *Error for each
// thing that is wrong.
func Compile(all []Rule, folder string, env handlers.Env) (*Set, error) {
	s := &Set{env: env, route: env.Prefix != ""}
	var errs []error
	for i := range all {
		c := compiler{env: env, folder: folder, maps: around.Of(env).Maps}
		s.rules = append(s.rules, c.rule(&all[i]))
		for _, e := range c.errs {
			errs = append(errs, &Error{Rule: i, Key: e.Key, Err: e.Err})
		}
	}
	return s, errors.Join(errs...)
}

// compiler makes one rule.
type compiler struct {
	env    handlers.Env
	folder string
	maps   *placeholder.Maps
	errs   []*handlers.KeyError
}

func (c *compiler) wrong(key string, err error) {
	c.errs = append(c.errs, &handlers.KeyError{Key: key, Err: err})
}

func (c *compiler) wrongf(key, format string, args ...any) {
	c.wrong(key, fmt.Errorf(format, args...))
}

func (c *compiler) rule(in *Rule) rule {
	r := rule{name: in.Name, around: in.Around, asks: in.Asks}
	root := cmp.Or(in.Root, c.folder)
	var folder *sysio.Folder
	if len(in.Exists)+len(in.Not.Exists) > 0 {
		var err error
		switch {
		case root == "":
			c.wrongf("root", "missing: the folder in which `exists` looks")
		default:
			if folder, err = sysio.OpenFolder(c.env.Path(root)); err != nil {
				c.wrong("root", err)
			}
		}
	} else if in.Root != "" {
		c.wrongf("root", "is for `exists`, which this rule does not have")
	}
	r.conditions, r.expression = c.allConditions(&in.Conditions, &in.Not, folder)
	c.actions(&r, in)
	return r
}

// actions makes what the rule does.
func (c *compiler) actions(r *rule, in *Rule) {
	var words []string
	var groups []string
	if r.expression != nil {
		groups = r.expression.groups
	}
	if c.header(r, in, groups) {
		words = append(words, "changes the header")
	}
	ends := 0
	for _, there := range []bool{in.Deny != 0, in.Rewrite != "", in.Redirect != ""} {
		if there {
			ends++
		}
	}
	switch {
	case ends > 1:
		c.wrongf("", "a rule has deny, rewrite or redirect, not several of them")
	case ends == 0 && len(words) == 0 && r.around == nil:
		c.wrong("", ErrNothing)
	case in.Deny != 0:
		if in.Deny < 400 || in.Deny > 599 {
			c.wrongf("deny", "expected a status of an error, 400 to 599, not %d", in.Deny)
		}
		if r.deny = in.Deny; r.deny == conn.StatusNoAnswer {
			words = append(words, "closes the connection")
		} else {
			words = append(words, fmt.Sprintf("denies with %d", in.Deny))
		}
	case in.Rewrite != "":
		var err error
		if r.rewrite, err = c.maps.ParseTarget(in.Rewrite, groups); err != nil {
			c.wrong("rewrite", err)
		}
	case in.Redirect != "":
		var err error
		if r.redirect, err = c.maps.ParseAddress(in.Redirect, groups); err != nil {
			c.wrong("redirect", err)
		}
	}
	switch r.status = in.Status; {
	case in.Redirect == "" && in.Status != 0:
		c.wrongf("status", "is for redirect, which this rule does not have")
	case in.Status == 0:
		r.status = tags.Defaults[Settings]().Status
	case in.Status < 300 || in.Status > 308 || in.Status >= 304 && in.Status <= 306:
		c.wrongf("status", "expected 300, 301, 302, 303, 307 or 308, not %d", in.Status)
	}
	r.actions = strings.Join(words, ", ")
}

// header makes the hook, and reports whether there is one.
func (c *compiler) header(r *rule, in *Rule, groups []string) bool {
	set := c.fields("set_headers", in.SetHeaders, groups)
	add := c.fields("add_headers", in.AddHeaders, groups)
	remove := slices.Clone(in.RemoveHeaders)
	for _, name := range remove {
		if err := handlers.CheckField(name); err != nil {
			c.wrongf("remove_headers", "%s: %w", name, err)
		}
	}
	cache := in.CacheControl
	if err := handlers.CheckField("Cache-Control", cache); err != nil {
		c.wrong("cache_control", err)
	}
	answer, err := in.Answer.compile()
	if ke, ok := errors.AsType[*handlers.KeyError](err); ok {
		c.wrong("answer."+ke.Key, ke.Err)
	}
	if len(set)+len(add)+len(remove) == 0 && cache == "" {
		if answer != nil {
			c.wrongf("answer", "is for set_headers, add_headers, remove_headers and cache_control, of which"+
				" the rule has none")
		}
		return false
	}
	failures := len(in.Answer.Status) > 0 // whether cache_control is for them
	change := func(req *conn.Request, resp *conn.Response, status int, groups [][]byte) {
		h := resp.Header()
		if answer != nil && !answer(resp, status) {
			return
		}
		for _, name := range remove {
			h.Del(name)
		}
		for i, f := range set {
			if i == 0 || f.name != set[i-1].name {
				h.Del(f.name)
			}
			f.add(h, req, groups)
		}
		for _, f := range add {
			f.add(h, req, groups)
		}
		if cache != "" && (status < 400 || failures) {
			h.Set("Cache-Control", cache)
			h.Del("Expires") // which says the same to caches of HTTP/1.0, or would contradict
			h.Del("Pragma")
		}
	}
	if hasGroups := func(f field) bool { return f.value.HasGroups() }; slices.ContainsFunc(set,
		hasGroups) || slices.ContainsFunc(add, hasGroups) {
		r.grouped = change
		return true
	}
	r.hook = func(req *conn.Request, resp *conn.Response, status int) {
		change(req, resp, status, nil)
	}
	return true
}

// field is a field of an answer.
type field struct {
	name, text string
	value      placeholder.Text // nil: text
}

// add adds the field, unless its placeholders stand for nothing.
func (f *field) add(h *conn.Header, req *conn.Request, groups [][]byte) {
	if f.value == nil {
		h.Add(f.name, f.text)
	} else if value := placeholder.AppendGroups(nil, req, f.value, groups); len(value) > 0 {
		h.Add(f.name, string(value))
	}
}

// fields checks header fields and lists them by name.
func (c *compiler) fields(key string, m map[string][]string, groups []string) (all []field) {
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		lower := strings.ToLower(name)
		if err := handlers.CheckField(name, m[name]...); err != nil {
			c.wrong(key+"."+name, err)
		} else if seen[lower] {
			c.wrongf(key+"."+name, "named twice, in different case")
		}
		seen[lower] = true
		for _, text := range m[name] {
			value, err := c.maps.ParseGroups(text, groups)
			if err != nil {
				c.wrong(key+"."+name, err)
			}
			if value.Literal() {
				value = nil
			}
			all = append(all, field{name, text, value})
		}
	}
	return all
}
