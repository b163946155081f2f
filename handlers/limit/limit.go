// Package limit is the setting `limit` of a site and of a route: which clients may come, with which
// methods, how often, how many at a time and with how much.
//
//	limit = { requests = "10/m", burst = 5, methods = ["GET", "POST"], max_body_size = "16KiB" }
//
//	limit.go    settings and handler
//	rate.go     limits of requests in a time
//	clients.go  which requests are counted together
//	shared.go   counts that processes have in common
//	tell.go     what clients, the log and the metrics are told
//	atwork.go   limits of requests at a time
package limit

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Settings are the keys of `limit`. Those that are missing limit nothing.
type Settings struct {
	// Allow are networks; all others get 403.
	Allow []string `toml:"allow"`
	// Deny are networks that get 403, even if they are allowed.
	Deny []string `toml:"deny"`
	// Methods are those that are allowed; others get 405; GET includes HEAD.
	Methods []string `toml:"methods"`
	// MaxBodySize is of a request body, in place of that of the whole file.
	MaxBodySize handlers.Size `toml:"max_body_size" min:"1B" max:"1TiB"`

	// BodyTimeout is how long a client may be silent within a request body, in place of that of the
	// whole file; with a longer one, min_rate does not count for the body.
	BodyTimeout time.Duration `toml:"body_timeout" min:"1ms" max:"24h"`

	// Requests is how many in a time, such as "10/s", "100/m" or "1000/h"; 429 beyond it.
	Requests Rate `toml:"requests"`
	// Burst is how many may come at once; by default as many as requests has.
	Burst int `toml:"burst" min:"1" max:"1000000"`
	// Delay is how many more of a client may wait for their turn, in place of a 429.
	Delay int `toml:"delay" min:"1" max:"250"`
	// Connections is how many requests may be under way at a time.
	Connections int `toml:"connections" min:"1" max:"1000000"`
	// Bandwidth is of an answer, in bytes a second.
	Bandwidth handlers.Size `toml:"bandwidth" min:"1KiB" max:"1TiB"`
	// BandwidthAfter is how many bytes of an answer go out before Bandwidth counts.
	BandwidthAfter handlers.Size `toml:"bandwidth_after" min:"1B" max:"1TiB"`
	// By is whose requests are counted together: "address", by default, "everybody", "header:NAME",
	// or a text with placeholders.
	By string `toml:"by"`
	// Fields gives answers the fields RateLimit-Policy and RateLimit.
	Fields bool `toml:"ratelimit_fields"`
	// DryRun lets all requests pass, and logs and counts those that would get 429.
	DryRun bool `toml:"dry_run"`
	// Shared is the name of counts that all processes with the same broker have in common.
	Shared string `toml:"shared"`

	// Names are those of the configuration, for Shared.
	Names *Names `toml:"-"`
}

// String says in words what the limits are.
func (s Settings) String() string {
	var all []string
	add := func(there bool, format string, args ...any) {
		if there {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(s.Allow != nil, "clients of %s", strings.Join(s.Allow, ", "))
	add(s.Deny != nil, "no clients of %s", strings.Join(s.Deny, ", "))
	add(s.Methods != nil, "methods %s", strings.Join(s.Methods, ", "))
	add(s.MaxBodySize > 0, "bodies up to %v", s.MaxBodySize)
	add(s.BodyTimeout > 0, "silent for %v at most within a body", s.BodyTimeout)
	add(s.Requests.Count > 0, "%v requests", s.Requests)
	add(s.Burst > 0, "%d at once", s.Burst)
	add(s.Delay > 0, "%d more wait for their turn", s.Delay)
	add(s.Connections > 0, "%d at a time", s.Connections)
	add(s.Bandwidth > 0, "%v a second", s.Bandwidth)
	add(s.BandwidthAfter > 0, "after %v", s.BandwidthAfter)
	add(s.By != "", "by %s", s.By)
	add(s.Shared != "", "shared as %s", s.Shared)
	add(s.DryRun, "a dry run: 429s pass")
	return strings.Join(all, ", ")
}

// limiter is a Settings made ready.
type limiter struct {
	allow, deny *networks.Set // nil: none
	methods     []string      // nil: all
	allowed     string        // methods, for the field Allow
	maxBody     int64         // 0: none of its own
	silence     time.Duration // within a body; 0: none of its own
	requests    *clients      // nil: any number
	delay       int64         // nanoseconds, for which a request may wait for its turn
	waiting     atomic.Int64  // requests that wait
	atWork      *atWork       // nil: any number
	bandwidth   int64         // 0: none of its own
	free        int64         // bytes before bandwidth counts
	kind        keyKind
	by          placeholder.Text // the key, with byText
	seed        maphash.Seed     // of atWork
	tell        teller
}

// keyKind is whose requests are counted together.
type keyKind uint8

const (
	byAddress keyKind = iota
	byText
	byEverybody
)

// maxWaiting is how many requests wait for their turn at a limit at a time; a client has 250 of
// them at most.
const maxWaiting = 1000

// maxDelay is how long a request waits for its turn at most.
const maxDelay = time.Minute

// needy is a key that has no effect by itself.
type needy struct {
	key string
	set bool
}

// New makes the middleware. Errors are *handlers.KeyError. The handlers may run on any number of
// loops at once.
func New(s Settings, env handlers.Env) (handlers.Middleware, error) {
	l := &limiter{seed: maphash.MakeSeed()}
	var err error
	if l.allow, err = parseNetworks("allow", s.Allow); err != nil {
		return nil, err
	}
	if l.deny, err = parseNetworks("deny", s.Deny); err != nil {
		return nil, err
	}
	for _, allowed := range s.Allow {
		for _, denied := range s.Deny {
			if networks.Within(allowed, denied) {
				return nil, handlers.BadKey("allow", "%s has no effect: deny has %s, and counts", allowed,
					denied)
			}
		}
	}
	if err := l.setMethods(s.Methods); err != nil {
		return nil, err
	}
	if err := l.setKey(s.By, around.Of(env).Maps); err != nil {
		return nil, err
	}
	if l.maxBody = int64(s.MaxBodySize); l.maxBody > 0 {
		around.Of(env).LargerBodies(l.maxBody)
	}
	if s.Requests.Count > 0 {
		if err := l.setRequests(&s); err != nil {
			return nil, err
		}
	}
	for _, k := range [...]needy{{"burst", s.Burst > 0}, {"delay", s.Delay > 0},
		{"ratelimit_fields", s.Fields}, {"shared", s.Shared != ""}} {
		if k.set && l.requests == nil {
			return nil, handlers.BadKey(k.key, `needs the key requests, such as requests = "10/s"`)
		}
	}
	if s.BandwidthAfter > 0 && s.Bandwidth == 0 {
		return nil, handlers.BadKey("bandwidth_after", "needs the key bandwidth")
	}
	l.free = int64(s.BandwidthAfter)
	l.bandwidth, l.silence = int64(s.Bandwidth), s.BodyTimeout
	if s.Connections > 0 {
		l.atWork = newAtWork(s.Connections)
	}
	for _, k := range [...]needy{{"by", s.By != ""}, {"dry_run", s.DryRun}} {
		if k.set && l.requests == nil && l.atWork == nil {
			return nil, handlers.BadKey(k.key, "needs the key requests or connections")
		}
	}
	l.setTeller(&s, env)
	if l.allow == nil && l.deny == nil && l.methods == nil && l.requests == nil &&
		l.atWork == nil && l.maxBody == 0 && l.bandwidth == 0 && l.silence == 0 {
		return nil, handlers.BadKey("requests",
			"missing; expected at least one limit, such as requests = \"10/s\"")
	}
	return func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			if status := l.refuse(req, resp); status != 0 {
				return status
			}
			return next(req, resp)
		}
	}, nil
}

// burstOf returns how many requests of a client may come at once.
func burstOf(s *Settings) int { return cmp.Or(s.Burst, s.Requests.Count) }

func (l *limiter) setRequests(s *Settings) (err error) {
	burst := burstOf(s)
	l.delay = int64(s.Delay) * s.Requests.each()
	if l.delay > int64(maxDelay) {
		return handlers.BadKey("delay", "the last one would wait for %v; expected %v at most",
			time.Duration(l.delay), maxDelay)
	}
	if s.Shared == "" {
		l.requests = newClients(s.Requests, burst, l.kind)
		return nil
	}
	l.requests, err = s.Names.open(s.Shared, s.Requests, burst, l.kind, s.By)
	return err
}

func parseNetworks(key string, list []string) (*networks.Set, error) {
	if list == nil {
		return nil, nil
	}
	if len(list) == 0 { // "none" would be a surprise for one of the two keys
		return nil, handlers.BadKey(key, "expected at least one network")
	}
	s, err := networks.Parse(list)
	if err != nil {
		return nil, &handlers.KeyError{Key: key, Err: err}
	}
	return s, nil
}

// AllowsMethod reports whether requests of a method may pass.
func (s Settings) AllowsMethod(method string) bool {
	return s.Methods == nil || slices.Contains(s.Methods, method) ||
		method == http.MethodHead && slices.Contains(s.Methods, http.MethodGet)
}

func (l *limiter) setMethods(methods []string) error {
	if methods == nil {
		return nil
	}
	for _, m := range methods {
		if !http1.ValidMethod(m) || m != strings.ToUpper(m) || m == http.MethodConnect {
			return handlers.BadKey("methods", "expected methods in upper case, such as GET, found %q", m)
		}
		l.methods = append(l.methods, m)
		if m == http.MethodGet && !slices.Contains(methods, http.MethodHead) {
			l.methods = append(l.methods, http.MethodHead)
		}
	}
	if l.methods == nil {
		return handlers.BadKey("methods", "expected at least one, such as GET")
	}
	l.allowed = strings.Join(l.methods, ", ")
	return nil
}

func (l *limiter) setKey(by string, maps *placeholder.Maps) error {
	name, isField := strings.CutPrefix(by, "header:")
	switch {
	case by == "" || by == "address" || by == "{address}":
		return nil
	case by == "everybody":
		l.kind = byEverybody
		return nil
	case isField && http1.ValidToken(name):
		by = "{field." + name + "}"
	case isField || !strings.Contains(by, "{"):
		return handlers.BadKey("by", `expected "address", "everybody", a text with placeholders, `+
			`such as "{host}{field.X-Api-Key}", or "header:" and the name of a header field, found %q`, by)
	}
	var err error
	l.kind = byText
	l.by, err = maps.Parse(by)
	if err == nil && l.by.Literal() {
		err = fmt.Errorf("%q: expected a text with placeholders", by)
	}
	return placeholder.BadKey("by", err)
}

// refuse returns the status for a request that may not pass, or 0.
func (l *limiter) refuse(req *conn.Request, resp *conn.Response) int {
	if l.deny != nil || l.allow != nil {
		client := req.RemoteAddr().Addr()
		if l.deny != nil && l.deny.Contains(client) || l.allow != nil && !l.allow.Contains(client) {
			return http.StatusForbidden
		}
	}
	if l.methods != nil && !slices.Contains(l.methods, req.Method()) {
		resp.Header().Set("Allow", l.allowed)
		return http.StatusMethodNotAllowed
	}
	if l.maxBody > 0 {
		// No 413 yet, if the body is too large: a route may allow more than its site. If nothing
		// does, reading the body fails, and the answer is a 413 even if nothing reads it.
		req.Body().ReplaceLimit(l.maxBody)
	}
	if l.silence > 0 {
		req.Body().SetTimeout(l.silence)
	}
	if l.bandwidth > 0 {
		resp.SetMaxRate(l.bandwidth)
		resp.Layer().RateAfter(l.free)
	}
	if l.requests == nil && l.atWork == nil {
		return 0
	}
	client := req.RemoteAddr().Addr()
	var space [256]byte
	text, keyed := space[:0], false
	if l.kind == byText { // else, and if all its placeholders stand for nothing, the address counts
		text, keyed = placeholder.AppendKey(text, req, l.by, networks.Of)
	}
	if l.requests != nil {
		if status := l.takeTurn(req, resp, client, text, keyed); status != 0 {
			return status
		}
	}
	if l.atWork != nil {
		key := uint64(0)
		switch network := networks.Of(client).As16(); {
		case keyed:
			key = maphash.Bytes(l.seed, text)
		case l.kind != byEverybody:
			key = maphash.Bytes(l.seed, network[:])
		}
		if !l.atWork.enter(key) {
			if l.tell.refused(req, "connections") {
				return tooMany(resp, int64(time.Second))
			}
			return 0
		}
		req.Defer(func() { l.atWork.leave(key) }) // when the answer is complete
	}
	return 0
}

// takeTurn counts the request, and waits for its turn. It returns the status of one that may not
// pass, or 0.
func (l *limiter) takeTurn(req *conn.Request, resp *conn.Response, client netip.Addr, text []byte,
	keyed bool) int {
	now, delay := int64(req.Loop().Time().Sub(epoch)), l.delay
	if delay > 0 && l.waiting.Load() >= maxWaiting {
		delay = 0
	}
	var t turn
	if keyed {
		t = l.requests.takeText(text, client, now, delay)
	} else {
		t = l.requests.take(client, now, delay)
	}
	l.tell.fields(resp, t)
	switch {
	case !t.pass && l.tell.refused(req, "requests"):
		return tooMany(resp, t.wait)
	case !t.pass || t.wait == 0 || l.tell.dry:
		return 0
	}
	l.waiting.Add(1)
	l.tell.counts[waiting].Add(1)
	l.tell.counts[delayed].Add(1)
	err := func() error {
		defer func() { // also when the thread is killed
			l.waiting.Add(-1)
			l.tell.counts[waiting].Add(-1)
		}()
		return req.Sleep(time.Duration(t.wait))
	}()
	if err != nil { // the client has left, or the server ends
		resp.Header().Set("Retry-After", "1")
		return http.StatusServiceUnavailable
	}
	return 0
}

// epoch is for times that count on while the system's clock is set.
var epoch = time.Now()

// tooMany answers 429 (RFC 6585 section 4); the client may come again after wait nanoseconds.
func tooMany(resp *conn.Response, wait int64) int {
	resp.Header().Set("Retry-After", strconv.FormatInt(seconds(wait), 10))
	return http.StatusTooManyRequests
}

// seconds rounds nanoseconds up.
func seconds(wait int64) int64 { return (wait + int64(time.Second) - 1) / int64(time.Second) }
