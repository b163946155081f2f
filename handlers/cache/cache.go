// Package cache keeps answers and gives them to others, as a shared cache of RFC 9111. It stands
// closest to a route's module, so whatever refuses a request comes first.
//
//	[[site.route]]
//	prefix = "/"
//	module = "proxy"
//	address = "127.0.0.1:3000"
//	cache = true
//
// In a program it is middleware:
//
//	store, err := cache.Open(cache.Options{Memory: 64 << 20})
//	...
//	layer, err := cache.New(store, cache.Settings{}, handlers.Env{})
//	mux.Use(layer)
//
//	cache.go    settings, New
//	store.go    Store: what layers keep answers in
//	key.go      cache keys of requests
//	layer.go    a request from the lookup to its answer
//	uses.go     how many requests there were for a key
//	lead.go     the request that asks, by its own exchange: a conn.Tap
//	fill.go     an answer on its way: a conn.Sink that fills the store
//	pipe.go     from a background subrequest to its client, past the store
//	kept.go     the head of an answer that is kept
//	plan.go     the decision about a request whose answer is kept: pure
//	send.go     kept and arriving answers, sent as the plan says
//	clock.go    the clock of ages
//	purge.go    purges, and the method PURGE
//	explain.go  what the layer would do with a request, in words
package cache

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// Settings are the keys of `cache`. All may be left out: then answers are kept that say so
// themselves.
type Settings struct {
	// TTL is, by status, how long an answer is fresh that does not say it itself; "any" is for all
	// statuses that caches may keep.
	TTL map[string]time.Duration `toml:"ttl"`
	// Key is what answers are kept by, with placeholders; by default scheme, host, path and query.
	Key string `toml:"key"`
	// SortQuery lets the order of the parameters in the query not matter.
	SortQuery bool `toml:"sort_query"`
	// Bypass are requests that neither get nor leave anything: one of the tables is enough, and all
	// conditions of a table must be true.
	Bypass []rules.When `toml:"bypass"`
	// Renew are requests for which the application is asked, and whose answers are kept.
	Renew []rules.When `toml:"renew"`
	// NoStore are requests whose answers are not kept, but that get what is.
	NoStore []rules.When `toml:"no_store"`
	// MinUses is how many requests must have asked for something that is not kept before it is.
	MinUses int `toml:"min_uses" min:"1" max:"255"`
	// Lock is how long a request waits for the head of an answer that another one has asked for;
	// 5s by default.
	Lock *time.Duration `toml:"lock" min:"0s" max:"10m" default:"5s"`
	// Grace is for how long a stale answer is sent when the application fails.
	Grace time.Duration `toml:"grace" min:"0s" max:"8760h"`
	// Refresh is for how long a stale answer is sent while a new one is asked for.
	Refresh time.Duration `toml:"refresh" min:"0s" max:"8760h"`
	// Fill says whether an answer that nobody waits for any more is fetched to its end.
	Fill string `toml:"fill" oneof:"wanted always"`
	// HonourClients is whether Cache-Control of requests counts; true by default.
	HonourClients *bool `toml:"honour_clients" default:"true"`
	// KeepCookies lets answers with Set-Cookie be kept and given to others.
	KeepCookies bool `toml:"keep_cookies"`
	// Ignore are fields of answers that do not count, such as "Cache-Control".
	Ignore []string `toml:"ignore"`
	// PurgeFrom are the networks whose clients may purge, by the method PURGE; by default nobody may.
	PurgeFrom []string `toml:"purge_from"`
	// Heuristic is the part of the time since Last-Modified, in percent, for which an answer is
	// fresh that does not say it itself.
	Heuristic int `toml:"heuristic" min:"0" max:"100"`
}

var defaults = tags.Defaults[Settings]()

const heuristicMax = 24 * time.Hour

// layer is what New makes. It does not change.
type layer struct {
	store *Store
	next  conn.Handler

	key           placeholder.Text // nil: the default
	site          string           // the site's names
	own           string           // the lines of keys that are the route's
	sortQuery     bool
	ttl           map[int]time.Duration
	any           time.Duration
	rules         rfc9111.Rules
	bypass        []*rules.Match
	renew         []*rules.Match
	noStore       []*rules.Match
	ignore        []string // fields of answers
	uses          *uses    // of min_uses; nil: one is enough
	lock          time.Duration
	always        bool
	refreshes     *refreshes     // the site's
	buffering     bool           // the module has handlers.Buffering
	keyHasCert    bool           // the key tells clients' certificates apart
	ignoreClients bool           // to what requests say of caches
	purgeFrom     *networks.Set  // nil: nobody
	coding        *coding.Policy // of what clients get compressed; nil: nothing
	depends       handlers.Dependence

	log *slog.Logger
}

// New makes the layer. Errors are *handlers.KeyError.
func New(store *Store, s Settings, env handlers.Env) (handlers.Middleware, error) {
	s = tags.Or(s, defaults)
	its := around.Of(env)
	l := &layer{store: store, sortQuery: s.SortQuery, lock: *s.Lock, ignoreClients: !*s.HonourClients,
		always: s.Fill == "always",
		coding: its.Compression, depends: its.Dependence, buffering: its.Buffering, log: env.Log()}
	l.site = siteName(env.Hosts)
	own, _ := store.sites.LoadOrStore(l.site, new(refreshes))
	l.refreshes = own.(*refreshes)
	l.own = l.site + "\n" + env.Prefix + "\n"
	l.rules = rfc9111.Rules{Heuristic: s.Heuristic, HeuristicMax: heuristicMax, StaleIfError: s.Grace,
		StaleWhileRevalidate: s.Refresh, KeepCookies: s.KeepCookies, Vary: l.varies,
		OwnCookie: l.depends.Cookie}
	l.ttl = make(map[int]time.Duration, len(s.TTL))
	for name, d := range s.TTL {
		status, err := strconv.Atoi(name)
		switch {
		case d < 0:
			return nil, handlers.BadKey("ttl", "%s: must not be negative", name)
		case name == "any":
			l.any = d
		case err != nil || len(name) != 3:
			return nil, handlers.BadKey("ttl", `expected a status such as "200", or "any", not %q`, name)
		case !rfc9111.Keeps(status):
			return nil, handlers.BadKey("ttl", "answers with the status %s are never kept", name)
		default:
			l.ttl[status] = d
		}
	}
	if s.Key != "" {
		var err error
		if l.key, err = its.Maps.Parse(s.Key); err != nil {
			return nil, handlers.BadKey("key", "%w", err)
		}
		l.keyHasCert = slices.ContainsFunc(l.key.Reads(), func(name string) bool {
			return name == "cert_subject" || name == "cert_serial" || name == "cert_fingerprint"
		})
	}
	var err error
	if l.bypass, err = matches("bypass", s.Bypass); err != nil {
		return nil, err
	}
	if l.renew, err = matches("renew", s.Renew); err != nil {
		return nil, err
	}
	if err := l.setIgnore(&s); err != nil {
		return nil, err
	}
	if l.noStore, err = matches("no_store", s.NoStore); err != nil {
		return nil, err
	}
	if s.MinUses > 1 {
		l.uses = &uses{least: uint32(min(s.MinUses, maxUses))}
	}
	if s.PurgeFrom != nil {
		if l.purgeFrom, err = networks.Parse(s.PurgeFrom); err != nil {
			return nil, &handlers.KeyError{Key: "purge_from", Err: err}
		}
	}
	if l.depends.Clients {
		env.Log().Warn(
			"cache: each client's address has answers of its own, as the application is told it",
			"by", strings.Join(l.depends.Words, ", "))
	}
	return func(next conn.Handler) conn.Handler {
		own := *l
		own.next = next
		return own.serve
	}, nil
}

// ignorable are the fields that Settings.Ignore may name.
var ignorable = []string{"Cache-Control", "Expires", "Set-Cookie", "Vary",
	rfc9111.FieldCDNCacheControl, rfc9111.FieldSurrogateControl, rfc9111.FieldXAccelExpires}

// setIgnore takes Settings.Ignore. The error is a *handlers.KeyError.
func (l *layer) setIgnore(s *Settings) error {
	for _, name := range s.Ignore {
		same := func(other string) bool { return ascii.EqualFold(name, other) }
		switch {
		case !slices.ContainsFunc(ignorable, same):
			return handlers.BadKey("ignore", "expected names among %s, not %q",
				strings.Join(ignorable, ", "), name)
		case !same("Set-Cookie"):
			l.ignore = append(l.ignore, name)
		case s.KeepCookies:
			return handlers.BadKey("ignore",
				"Set-Cookie: with keep_cookies, answers are kept with their cookies")
		default:
			l.rules.DropCookies = true
		}
	}
	return nil
}

// siteName is what keys name a site by: its hosts or, as keys should be short, a hash of many.
func siteName(hosts []string) string {
	name := strings.Join(hosts, ",")
	if len(name) > 64 {
		return fmt.Sprintf("%.32x", sha256.Sum256([]byte(name)))
	}
	return name
}

func matches(key string, all []rules.When) (ms []*rules.Match, err error) {
	for _, w := range all {
		m, err := w.Compile()
		if err != nil {
			return nil, handlers.BadKey(key, "%w", err)
		}
		ms = append(ms, m)
	}
	return ms, nil
}

// rulesFor returns the rules for an answer of that status.
func (l *layer) rulesFor(status int) rfc9111.Rules {
	r := l.rules
	var ok bool
	if r.TTL, ok = l.ttl[status]; !ok && keepable(status) {
		r.TTL = l.any
	}
	return r
}

// keepable reports whether an answer of that status may be kept that says nothing of it (RFC 9110
// section 15.1).
func keepable(status int) bool {
	switch status {
	case 200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501:
		return true
	}
	return false
}
