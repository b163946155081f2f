// Package limit is the setting `limit` of a site and of a route: which clients may come, with which
// methods, how often, how many at a time and with how much.
//
//	limit = { requests = "10/m", burst = 5, methods = ["GET", "POST"], max_body_size = "16KiB" }
//
//	limit.go    settings and handler
//	rate.go     limits of requests in a time
//	clients.go  which requests are counted together
//	atwork.go   limits of requests at a time
package limit

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	// Connections is how many requests may be under way at a time.
	Connections int `toml:"connections" min:"1" max:"1000000"`
	// Bandwidth is of an answer, in bytes a second.
	Bandwidth handlers.Size `toml:"bandwidth" min:"1KiB" max:"1TiB"`
	// By is whose requests are counted together: "address", by default, "header:NAME", or a text with
	// placeholders.
	By string `toml:"by"`
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
	add(s.Connections > 0, "%d at a time", s.Connections)
	add(s.Bandwidth > 0, "%v a second", s.Bandwidth)
	add(s.By != "", "by %s", s.By)
	return strings.Join(all, ", ")
}

// limiter is a Settings made ready.
type limiter struct {
	allow, deny *networks.Set    // nil: none
	methods     []string         // nil: all
	allowed     string           // methods, for the field Allow
	maxBody     int64            // 0: none of its own
	silence     time.Duration    // within a body; 0: none of its own
	requests    *clients         // nil: any number
	atWork      *atWork          // nil: any number
	bandwidth   int64            // 0: none of its own
	by          placeholder.Text // the key; nil: the address is
	byAddress   maphash.Seed
	byText      maphash.Seed
}

// New makes the middleware. Errors are *handlers.KeyError. The handlers may run on any number of
// loops at once.
func New(s Settings, env handlers.Env) (handlers.Middleware, error) {
	l := &limiter{byAddress: maphash.MakeSeed(), byText: maphash.MakeSeed()}
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
	switch {
	case s.Requests.Count > 0:
		burst := cmp.Or(s.Burst, s.Requests.Count)
		l.requests = newClients(s.Requests, burst, l.by != nil)
	case s.Burst > 0:
		return nil, handlers.BadKey("burst", "needs the key requests, such as requests = \"10/s\"")
	}
	l.bandwidth, l.silence = int64(s.Bandwidth), s.BodyTimeout
	if s.Connections > 0 {
		l.atWork = newAtWork(s.Connections)
	}
	if s.By != "" && l.requests == nil && l.atWork == nil {
		return nil, handlers.BadKey("by", "needs the key requests or connections")
	}
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
	case isField && http1.ValidToken(name):
		by = "{field." + name + "}"
	case isField || !strings.Contains(by, "{"):
		return handlers.BadKey("by", `expected "address", a text with placeholders, such as `+
			`"{host}{field.X-Api-Key}", or "header:" and the name of a header field, found %q`, by)
	}
	var err error
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
	}
	if l.requests == nil && l.atWork == nil {
		return 0
	}
	client := req.RemoteAddr().Addr()
	key, keyed := l.key(req)
	if l.requests != nil {
		now, wait := int64(req.Loop().Time().Sub(epoch)), int64(0)
		if keyed {
			wait = l.requests.takeKey(key, client, now)
		} else {
			wait = l.requests.take(client, now)
		}
		if wait > 0 {
			seconds := (wait + int64(time.Second) - 1) / int64(time.Second)
			return tooMany(resp, seconds)
		}
	}
	if l.atWork != nil {
		if !keyed {
			network := networks.Of(client).As16()
			key = maphash.Bytes(l.byAddress, network[:])
		}
		if !l.atWork.enter(key) {
			return tooMany(resp, 1)
		}
		req.Defer(func() { l.atWork.leave(key) }) // when the answer is complete
	}
	return 0
}

// epoch is for times that count on while the system's clock is set.
var epoch = time.Now()

// tooMany answers 429 (RFC 6585 section 4).
func tooMany(resp *conn.Response, seconds int64) int {
	resp.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	return http.StatusTooManyRequests
}

// key returns a hash of the text by which the client counts. ok is false if it counts by its
// address: all placeholders of the text stand for nothing.
func (l *limiter) key(req *conn.Request) (key uint64, ok bool) {
	if l.by == nil {
		return 0, false
	}
	var space [256]byte
	text, ok := placeholder.AppendKey(space[:0], req, l.by, networks.Of)
	if !ok {
		return 0, false
	}
	return maphash.Bytes(l.byText, text), true
}
