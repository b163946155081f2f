package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/auth"
	"github.com/lwango/lwango/handlers/browsers"
	"github.com/lwango/lwango/handlers/errorpages"
	"github.com/lwango/lwango/handlers/limit"
	"github.com/lwango/lwango/handlers/mirror"
	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/compression"
)

// Around has the keys that a site and a route have in common: what happens to a request before its
// handler is called, and to the answer afterwards. A site's come before the choice of the route, a
// route's before its module.
type Around struct {
	Table settings.Table `toml:",table"`
	// Sets are names of [set.NAME] tables, whose keys count where there is none here; the first set
	// that has a key counts. Rules and routes of sets come after others.
	Sets []string `toml:"set"`
	// Compression is what clients get compressed; what it leaves out is from the site or the whole
	// file.
	Compression *Compression `toml:"compression"`
	// ErrorPages are, by status, files, or paths of routes, in place of the server's pages.
	ErrorPages map[string]string `toml:"error_pages"`
	// SecurityHeaders are fields that forbid browsers what pages seldom need.
	SecurityHeaders string `toml:"security_headers" oneof:"usual strict"`
	// CORS says which pages of other origins may read answers.
	CORS *browsers.CORS `toml:"cors"`
	// CSRF refuses requests that pages of other origins cause: a table, or true or false.
	CSRF *CSRF `toml:"csrf"`
	// Rules deny, redirect or rewrite requests or change header fields, in order.
	Rules []Rule `toml:"rule"`
	// Limit is who may come, and how often.
	Limit *limit.Settings `toml:"limit"`
	// Auth asks for a name and a password.
	Auth *auth.Settings `toml:"auth" default:"-"`
	// SignedLinks lets only requests by links pass that an application has signed.
	SignedLinks *auth.Links `toml:"signed_links" default:"-"`
	// Mirror sends copies of requests to another route.
	Mirror *mirror.Settings `toml:"mirror"`
	// Cache keeps answers, and gives them to others: a table, or true or false.
	Cache *Cache `toml:"cache"`
	// Use are names of the program's middleware, outermost first.
	Use []string `toml:"use"`

	set *rules.Set // of Rules; nil: there are none
}

// Rule is a [[site.rule]] or a [[site.route.rule]].
type Rule struct {
	Table settings.Table `toml:",table"`
	Rule  rules.Settings `toml:",inline" default:"-"`
	// Limit is for the requests that the rule is for.
	Limit *limit.Settings `toml:"limit"`
	// Auth is for the requests that the rule is for.
	Auth *auth.Settings `toml:"auth" default:"-"`
}

// middleware makes one Middleware of all keys, or nil if none is set. env.Prefix is empty for a
// site. folder is where a rule without root looks for files; it may be empty. Errors are reported
// at their key.
//
// The layers, outermost first: compression, error pages, those about browsers, rules, limit, auth,
// mirror, the program's own. So all answers of the others may be compressed, and a layer further in
// that refuses a request gets its error page. A rule that denies or redirects costs nothing else,
// and one that leads to another route leaves no trace of this one. A rule has its own limit and
// auth, in the same order, before its actions.
func (a *Around) middleware(env handlers.Env, folder string,
	modules *handlers.Registry) handlers.Middleware {
	var layers []handlers.Middleware // outermost first
	if a.Compression != nil {
		layers = append(layers, compression.Middleware(around.Of(env).Compression))
	}
	pages, err := errorpages.New(a.ErrorPages, env)
	if err != nil {
		reportAt(a.Table, "error_pages", err)
	}
	if pages != nil {
		layers = append(layers, pages.Outer)
	}
	layers = append(layers, a.browsers())
	if len(a.Rules) > 0 {
		a.compile(folder, env)
		layers = append(layers, a.set.Middleware())
	}
	layers = append(layers, admit(a.Table, a.Limit, a.Auth, env))
	if its := around.Of(env); a.Auth != nil && a.Auth.Request != "" && its.Route != nil {
		asked, _, _ := strings.Cut(a.Auth.Request, "?")
		if its.Routes.Of(asked) == its.Route {
			a.Table.Sub("auth").Errorf("request", "%s is a path of this route, which would ask "+
				"itself; expected that of another route", asked)
		}
	}
	if a.SignedLinks != nil {
		m, err := auth.NewLinks(*a.SignedLinks, env)
		if err != nil {
			reportAt(a.Table.Sub("signed_links"), "", err)
		}
		layers = append(layers, m)
	}
	if a.Mirror != nil {
		m, err := mirror.New(*a.Mirror, env)
		if err != nil {
			reportAt(a.Table.Sub("mirror"), "", err)
		}
		layers = append(layers, m)
	}
	for _, name := range a.Use {
		m, ok := modules.Middleware(name)
		if !ok {
			a.Table.Errorf("use", "%s", unknownName("middleware", name, modules.MiddlewareNames()))
		}
		layers = append(layers, m)
	}
	if pages != nil {
		layers = append(layers, pages.Inner) // the last one
	}
	return handlers.Chain(layers...)
}

// admit makes one Middleware of the keys limit and auth of a table; nil if it has neither.
func admit(table settings.Table, l *limit.Settings, a *auth.Settings,
	env handlers.Env) handlers.Middleware {
	var layers []handlers.Middleware // outermost first
	add := func(key string, m handlers.Middleware, err error) {
		if err != nil { // at a key of the table that is the value of key
			reportAt(table.Sub(key), "", err)
			m = func(next conn.Handler) conn.Handler { return next }
		}
		layers = append(layers, m)
	}
	if l != nil {
		m, err := limit.New(*l, env)
		add("limit", m, err)
	}
	if a != nil {
		m, err := auth.New(*a, env)
		add("auth", m, err)
	}
	return handlers.Chain(layers...)
}

// nameLimits gives the limits their Names.
func (a *Around) nameLimits(n *limit.Names) {
	if a.Limit != nil {
		a.Limit.Names = n
	}
	for i := range a.Rules {
		if l := a.Rules[i].Limit; l != nil {
			l.Names = n
		}
	}
}

// asks describes what the keys limit and auth of a table demand of a request.
func asks(l *limit.Settings, a *auth.Settings) string {
	var words []string
	if l != nil {
		words = append(words, "limit: "+l.String())
	}
	if a != nil {
		words = append(words, "auth: "+a.String())
	}
	return strings.Join(words, "; ")
}

// compile makes the rules. It reports the errors of a rule at its own key.
func (a *Around) compile(folder string, env handlers.Env) {
	all := make([]rules.Rule, len(a.Rules))
	for i, r := range a.Rules {
		all[i] = rules.Rule{
			Settings: r.Rule,
			Name:     fmt.Sprintf("rule %d (%s)", i+1, r.Table.Position("")),
			Around:   admit(r.Table, r.Limit, r.Auth, env),
			Asks:     asks(r.Limit, r.Auth),
		}
	}
	set, err := rules.Compile(all, folder, env)
	a.set = set
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return
	}
	for _, err := range joined.Unwrap() {
		if e, ok := errors.AsType[*rules.Error](err); ok {
			at, key := a.Rules[e.Rule].Table, e.Key
			if errors.Is(err, rules.ErrNothing) && at.Refused() {
				continue // the error of a refused key says enough
			}
			if rest, ok := strings.CutPrefix(key, "not."); ok {
				at, key = at.Sub("not"), rest
			}
			if table, name, ok := strings.Cut(key, "."); ok {
				at, key = at.Sub(table), name
			}
			at.Errorf(key, "rule %d: %v", e.Rule+1, e.Err)
		}
	}
}
