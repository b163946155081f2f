package proxy

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/relay"
	"github.com/lwango/lwango/internal/upstream"
)

// Settings are the module's keys.
type Settings struct {
	Address []string     `toml:"address"`
	TLS     upstream.TLS `toml:"tls"`

	Host           string            `toml:"host"`
	StripPrefix    bool              `toml:"strip_prefix"`
	RequestHeaders map[string]string `toml:"request_headers"`
	Underscores    bool              `toml:"underscores"`
	HideHeader     []string          `toml:"hide_header"`

	Health      Health        `toml:"health"`
	Balance     string        `toml:"balance" oneof:"round_robin least_conn"`
	MaxConns    int           `toml:"max_conns" min:"0"`
	MaxQueue    int           `toml:"max_queue" min:"0"`
	MaxIdle     int           `toml:"max_idle" min:"0"`
	IdleTimeout time.Duration `toml:"idle_timeout" min:"1ms"`

	KeepaliveTime     time.Duration `toml:"keepalive_time" min:"0s"`
	KeepaliveRequests int           `toml:"keepalive_requests" min:"0"`

	Retry      []string      `toml:"retry"`
	RetryTries int           `toml:"retry_tries" min:"0"`
	RetryTime  time.Duration `toml:"retry_time" min:"0s"`

	QueueTimeout     time.Duration `toml:"queue_timeout" min:"1ms"`
	ConnectTimeout   time.Duration `toml:"connect_timeout" min:"1ms"`
	SendTimeout      time.Duration `toml:"send_timeout" min:"1ms"`
	FirstByteTimeout time.Duration `toml:"first_byte_timeout" min:"1ms"`
	ReadTimeout      time.Duration `toml:"read_timeout" min:"1ms"`
	TunnelTimeout    time.Duration `toml:"tunnel_timeout" min:"1ms"`

	RequestBuffering  bool          `toml:"request_buffering"`
	ResponseBuffering handlers.Size `toml:"response_buffering" min:"0B"`
	MaxHeaderSize     handlers.Size `toml:"max_header_size" min:"1KiB" max:"16MiB"`
	Lenient           bool          `toml:"lenient"`
	AccelRoot         string        `toml:"accel_root"`
	AccelRedirect     bool          `toml:"accel_redirect"`
	InterceptErrors   bool          `toml:"intercept_errors"`
}

// Defaults are the settings of a route that gives only address.
var Defaults = Settings{
	Host:    "client",
	Health:  Health{Status: "200-399", Interval: 5 * time.Second, Timeout: time.Second, Rises: 2, Falls: 3},
	Balance: "round_robin",

	MaxQueue:    1024,
	MaxIdle:     1024,
	IdleTimeout: time.Minute,

	KeepaliveTime:     time.Hour,
	KeepaliveRequests: 10000,

	Retry:      []string{"connect", "cut", "timeout"},
	RetryTries: 3,

	QueueTimeout:     60 * time.Second,
	ConnectTimeout:   5 * time.Second,
	SendTimeout:      60 * time.Second,
	FirstByteTimeout: 60 * time.Second,
	ReadTimeout:      60 * time.Second,
	TunnelTimeout:    time.Hour,

	RequestBuffering:  true,
	ResponseBuffering: 64 << 20,
	MaxHeaderSize:     64 << 10,
}

// Register puts the module into r. All routes that are ever built from r share one pool of
// upstreams: connections to one address are counted and kept together.
func Register(r *handlers.Registry) {
	p := new(upstream.Pool)
	with := func(s Settings, env handlers.Env) (conn.Handler, error) { return build(s, env, p) }
	handlers.RegisterModule(r, "proxy", Defaults, with)
}

// module is a route's state. Only what the pool's lock guards in the group changes.
type module struct {
	set    Settings
	env    handlers.Env
	log    *slog.Logger
	group  *upstream.Group
	fields []field           // request_headers
	accel  *servefiles.Accel // nil: X-Accel-Redirect leads nowhere
	hosts  map[string]string
	retry  retries
}

// build makes the handler. Errors are *handlers.KeyError. It may run on any number of loops at
// once.
func build(s Settings, env handlers.Env, p *upstream.Pool) (conn.Handler, error) {
	m := &module{set: s, env: env, log: env.Log().With("route", env.Prefix)}
	security, err := s.TLS.Load(env.Path)
	if err != nil {
		return nil, &handlers.KeyError{Key: "tls", Err: err}
	}
	check, err := m.check()
	if err != nil {
		return nil, err
	}
	if m.retry, err = retriesOf(s.Retry); err != nil {
		return nil, err
	}
	m.group, err = p.Group(upstream.Settings{
		Addresses: s.Address, Dir: env.Dir, TLS: security, Check: check,
		LeastConn: s.Balance == "least_conn",
		MaxConns:  s.MaxConns, MaxQueue: s.MaxQueue, QueueTimeout: s.QueueTimeout,
		MaxIdle: s.MaxIdle, IdleTimeout: s.IdleTimeout, ConnectTimeout: s.ConnectTimeout,
		KeepaliveTime: s.KeepaliveTime, KeepaliveRequests: s.KeepaliveRequests, Newest: true,
		Unreached: func(name string, err error) {
			m.log.Warn("proxy: upstream not reached", "upstream", name, "error", err)
		},
	})
	switch {
	case err != nil:
	case len(s.Address) == 0:
		err = errors.New(`missing: where the upstream listens, such as "127.0.0.1:9001"`)
	case m.group.Primaries() == 0:
		err = errors.New("every address is a backup")
	}
	if err != nil {
		return nil, &handlers.KeyError{Key: "address", Err: err}
	}
	if s.TLS != (upstream.TLS{}) && !m.group.Secure() {
		return nil, handlers.BadKey("tls", `no address begins with "https://"`)
	}
	if !http1.ValidAuthority(s.Host) {
		return nil, handlers.BadKey("host",
			`expected "client", "upstream" or a name, perhaps with a port, not %q`, s.Host)
	}
	if err := m.readFields(); err != nil {
		return nil, err
	}
	for _, name := range s.HideHeader {
		if !http1.ValidToken(name) {
			return nil, handlers.BadKey("hide_header", "expected the name of a header field, not %q",
				name)
		}
	}
	if m.accel, err = servefiles.OpenAccel(s.AccelRoot, s.AccelRedirect, env); err != nil {
		return nil, err
	}
	m.hosts = hostsOf(s.Address)
	if check != nil && env.Background != nil {
		env.Background(m.group.Watch)
	}
	if env.Upstreams != nil {
		env.Upstreams(m.group.Report)
	}
	return m.serve, nil
}

// hostsOf returns what the Host field says of each address, by its name in the group.
func hostsOf(addresses []string) map[string]string {
	hosts := make(map[string]string)
	for _, a := range addresses {
		name := strings.Fields(a)[0] // options follow, see package upstream
		place, usual := name, "80"
		if rest, ok := strings.CutPrefix(name, "https://"); ok {
			place, usual = rest, "443"
		} else if rest, ok := strings.CutPrefix(name, "http://"); ok {
			place = rest
		}
		host, port, err := net.SplitHostPort(place)
		if before, _, ok := strings.Cut(host, "%"); ok { // a zone is this machine's (RFC 6874)
			host, place = before, "["+before+"]:"+port
		}
		switch {
		case strings.HasPrefix(place, "unix:"):
			hosts[name] = "localhost"
		case err != nil: // there is no port
			hosts[name] = place
		case port == usual && strings.Contains(host, ":"):
			hosts[name] = "[" + host + "]"
		case port == usual:
			hosts[name] = host
		default:
			hosts[name] = place
		}
	}
	return hosts
}

// requestRoom is how much of a request's head and body is written at once.
const requestRoom = relay.BufferSize - client.ChunkRoom
