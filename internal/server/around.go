package server

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/auth"
	"github.com/lwango/lwango/handlers/compress"
	"github.com/lwango/lwango/handlers/errorpages"
	"github.com/lwango/lwango/handlers/limit"
	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/internal/server/settings"
)

// around is the keys that a site and a route have in common: what happens to a request before it is
// handed on, and to its answer afterwards. A site's come before the choice of the route, a route's
// before its module.
type around struct {
	Table       settings.Table     `toml:",table"`
	Compression *compressionConfig `toml:"compression"`
	ErrorPages  map[string]string  `toml:"error_pages"`
	Rules       []ruleConfig       `toml:"rule"`
	Limit       *limit.Settings    `toml:"limit"`
	Auth        *auth.Settings     `toml:"auth"`

	set *rules.Set // of Rules; nil: there are none
}

// ruleConfig is a [[site.rule]] or a [[site.route.rule]].
type ruleConfig struct {
	Table settings.Table `toml:",table"`
	Rule  rules.Settings `toml:",inline"`
}

// middleware makes one Middleware of all, or nil if there is nothing to do. env.Prefix is empty for
// a site. folder is where a rule looks for files if it does not say; it may be empty. What is wrong
// is reported at its key.
//
// The layers, outermost first: compression, error pages, rules, limit, auth. So all that the others
// answer may be compressed, and what refuses a request further in gets its error page. A rule that
// denies or redirects costs nothing else, and one that leads to another route leaves nothing of this
// one behind.
func (a *around) middleware(env handlers.Env, folder string) handlers.Middleware {
	var layers []handlers.Middleware // outermost first
	add := func(key string, m handlers.Middleware, err error) {
		if err != nil { // at a key of the table that is the value of key
			reportAt(a.Table.Sub(key), "", err)
			return
		}
		layers = append(layers, m)
	}
	if a.Compression != nil {
		layers = append(layers, compress.Middleware(env.Compression))
	}
	pages, err := errorpages.New(a.ErrorPages, env)
	if err != nil {
		reportAt(a.Table, "error_pages", err)
	}
	if pages != nil {
		layers = append(layers, pages.Outer)
	}
	if len(a.Rules) > 0 {
		a.compile(folder, env)
		layers = append(layers, a.set.Middleware())
	}
	if a.Limit != nil {
		m, err := limit.New(*a.Limit, env)
		add("limit", m, err)
	}
	if a.Auth != nil {
		m, err := auth.New(*a.Auth, env)
		add("auth", m, err)
	}
	if pages != nil {
		layers = append(layers, pages.Inner) // the last one
	}
	return handlers.Chain(layers...)
}

// compile makes the rules. It reports what is wrong with one at its own key.
func (a *around) compile(folder string, env handlers.Env) {
	all := make([]rules.Rule, len(a.Rules))
	for i, r := range a.Rules {
		all[i] = rules.Rule{
			Settings: r.Rule,
			Name:     fmt.Sprintf("rule %d (line %d)", i+1, r.Table.Line("")),
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
