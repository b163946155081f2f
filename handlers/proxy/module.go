package proxy

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/upstream/tunnel"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
)

// Settings are the module's keys.
type Settings struct {
	Address        []string          `toml:"address"`
	TLS            upstreams.TLS     `toml:"tls"`
	ProxyProtocol  string            `toml:"proxy_protocol" oneof:"v1 v2"`
	Version        string            `toml:"version" oneof:"1.1 2" default:"1.1"`
	Host           string            `toml:"host" default:"client"`
	RequestHeaders map[string]string `toml:"request_headers"`

	AddRequestHeaders map[string][]string `toml:"add_request_headers"`

	upstreams.Settings `toml:",inline"`
	Paths              `toml:",inline"`
	Forwarded          `toml:",inline"`

	MaxIdle           int           `toml:"max_idle" min:"0" default:"1024"`
	IdleTimeout       time.Duration `toml:"idle_timeout" min:"1ms" default:"1m"`
	KeepaliveTime     time.Duration `toml:"keepalive_time" min:"-1" default:"1h"`
	KeepaliveRequests int           `toml:"keepalive_requests" min:"-1" default:"10000"`

	FirstByteTimeout time.Duration `toml:"first_byte_timeout" min:"1ms" default:"60s"`
	TunnelTimeout    time.Duration `toml:"tunnel_timeout" min:"1ms" default:"1h"`
	Lenient          bool          `toml:"lenient"`
}

// Defaults are the settings of a route that gives only address.
var Defaults = tags.Defaults[Settings]()

// Register puts the module into r. All routes that are ever built from r share one pool of
// upstreams: connections to one address are counted and kept together.
func Register(r *handlers.Registry) {
	p := new(upstream.Pool)
	with := func(s Settings, env handlers.Env) (conn.Handler, error) { return build(s, env, p) }
	handlers.RegisterModule(r, "proxy", Defaults, with, handlers.Buffering)
}

// To returns the Defaults with these addresses.
func To(addresses ...string) Settings {
	s := Defaults
	s.Address = addresses
	return s
}

// New makes a handler of these settings, which begin with To or Defaults, for a program that has no
// configuration:
//
//	s := proxy.To("10.0.0.1:3000", "10.0.0.2:3000")
//	s.Health.Path = "/up"
//	h, err := proxy.New(ctx, s, handlers.Env{Logger: log})
//
// Health checks, and the goroutine that reads files of TLS again, end with ctx; the handler does
// not. All handlers of New share one pool of upstreams: connections to one address are counted and
// kept together. env may be zero. Its Prefix is the beginning of the paths that lead to the
// handler, for the keys about paths; without a Logger nothing is logged. An error about a key is a
// *handlers.KeyError; but if a value is out of its range, or none of its words, the error is
// another one, and names the field of s.
func New(ctx context.Context, s Settings, env handlers.Env) (conn.Handler, error) {
	if s.IdleTimeout == 0 {
		return nil, handlers.BadKey("idle_timeout", "is 0: settings begin with proxy.To, or Defaults")
	}
	if err := tags.CheckFilled(&s); err != nil {
		return nil, err
	}
	if env.Process == nil {
		env.Process = around.Context{Process: untilDone{ctx: ctx}}
	}
	return build(s, env, &pool)
}

// pool has the upstreams of all handlers of New.
var pool upstream.Pool

// untilDone is the server of a handler that has none: what runs in the background does so until ctx
// ends.
type untilDone struct {
	around.None
	ctx context.Context
}

func (u untilDone) Background(f func(context.Context)) { go f(u.ctx) }

// module is a route's state. Only what the pool's lock guards in the group changes.
type module struct {
	reverseproxy.Route
	set      Settings
	fields   []field // request_headers
	added    []field // add_request_headers
	hosts    map[string]string
	path     pathChange
	forwards forwards
	usual    [2][]forwardedPiece // for http and https; nil: all requests are unusual
	prefix   []byte              // for X-Forwarded-Prefix
	mapBack  *mapBack            // nil: what the upstream says of addresses holds for the client

	tunnels tunnel.Limits

	// Fields that need a closer look, besides those that begin with X.
	fromClient, fromUpstream http1.NameSet
}

// build makes the handler. Errors are *handlers.KeyError. It may run on any number of loops at
// once.
func build(s Settings, env handlers.Env, p *upstream.Pool) (conn.Handler, error) {
	m := &module{set: s, tunnels: tunnel.Limits{Idle: s.TunnelTimeout, Half: s.ReadTimeout}}
	m.Route = reverseproxy.Route{Settings: &m.set.Settings, Module: "proxy", Env: env,
		Log: env.Log(), Idempotent: http1.Idempotent, Exclusive: upstream.JustUsed}
	m.Header = s.ProxyProtocol
	security, err := m.Security(&s.TLS)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(reverseproxy.NotZero("keepalive_time", s.KeepaliveTime),
		reverseproxy.NotZero("keepalive_requests", s.KeepaliveRequests)); err != nil {
		return nil, err
	}
	m.Ping, m.PingID = m.ping, s.Host
	accel, err := servefiles.OpenAccel(s.AccelRoot, s.AccelRedirect, env)
	if err != nil {
		return nil, err
	}
	missing := errors.New(`missing: where the upstream listens, such as "127.0.0.1:9001"`)
	if err := m.Open(p, upstream.Settings{
		Addresses: s.Address, TLS: security, MaxIdle: s.MaxIdle, IdleTimeout: s.IdleTimeout,
		KeepaliveTime: s.KeepaliveTime, KeepaliveRequests: s.KeepaliveRequests, Newest: true,
		HTTP2: s.Version == "2",
	}, missing, accel); err != nil {
		return nil, err
	}
	if s.TLS != (upstreams.TLS{}) && !m.Secure() {
		return nil, handlers.BadKey("tls", `no address begins with "https://"`)
	}
	if !http1.ValidAuthority(s.Host) {
		return nil, handlers.BadKey("host",
			`expected "client", "upstream" or a name, perhaps with a port, not %q`, s.Host)
	}
	if err := m.readFields(); err != nil {
		return nil, err
	}
	if err := m.readPaths(); err != nil {
		return nil, err
	}
	if err := m.readForwarded(); err != nil {
		return nil, err
	}
	if err := m.readMapBack(); err != nil {
		return nil, err
	}
	m.readNames()
	m.hosts = hostsOf(reverseproxy.Addresses(&s.Settings, s.Address))
	m.depend()
	m.Watch()
	return m.serve, nil
}

// hostsOf returns what the Host field says of each address, by its name in the group.
func hostsOf(addresses []string) map[string]string {
	hosts := make(map[string]string)
	for _, a := range addresses {
		name := strings.Fields(a)[0] // options follow, see package upstream
		where, usual := name, "80"
		if rest, ok := strings.CutPrefix(name, "https://"); ok {
			where, usual = rest, "443"
		} else if rest, ok := strings.CutPrefix(name, "http://"); ok {
			where = rest
		} else if rest, ok := strings.CutPrefix(name, "h2c://"); ok {
			where = rest
		}
		host, port, err := net.SplitHostPort(where)
		if before, _, ok := strings.Cut(host, "%"); ok { // a zone is this machine's (RFC 6874)
			host, where = before, "["+before+"]:"+port
		}
		switch domain := upstream.ServiceOf(where); {
		case domain != "":
			hosts[name] = domain
		case strings.HasPrefix(where, "unix:"):
			hosts[name] = "localhost"
		case err != nil: // there is no port
			hosts[name] = where
		case port == usual && strings.Contains(host, ":"):
			hosts[name] = "[" + host + "]"
		case port == usual:
			hosts[name] = host
		default:
			hosts[name] = where
		}
	}
	return hosts
}

// requestRoom is how much of a request's head and body is written at once.
const requestRoom = loop.BufferSize - http1.ChunkRoom
