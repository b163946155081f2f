// Package upstreams has the keys that proxy, fastcgi, uwsgi and scgi have in common: the modules
// that pass requests on. The settings of each have them. The README.md of the module says what each
// means.
package upstreams

import (
	"time"

	"github.com/lwango/lwango/conn"
)

// Settings are the keys that proxy, fastcgi, uwsgi and scgi have in common.
type Settings struct {
	Upstream string `toml:"upstream"`
	Shared   `toml:",inline"`

	Split   []Split `toml:"split"`
	SplitBy string  `toml:"split_by" default:"{address}"`

	Retry      []string      `toml:"retry" default:"connect cut timeout"`
	RetryTries int           `toml:"retry_tries" min:"-1" default:"3"`
	RetryTime  time.Duration `toml:"retry_time" min:"-1" default:"-1"`

	Underscores      bool `toml:"underscores"`
	RequestBuffering bool `toml:"request_buffering" default:"true"`
	// With this default, an upload that stands still holds 24 KiB, with its stack and input.
	RequestMemory     conn.Size `toml:"request_memory" min:"1KiB" max:"16MiB" default:"12KiB"`
	ResponseBuffering conn.Size `toml:"response_buffering" min:"0B" default:"64MiB"`
	MaxHeaderSize     conn.Size `toml:"max_header_size" min:"1KiB" max:"16MiB" default:"64KiB"`
	HideHeader        []string  `toml:"hide_header"`
	AccelRoot         string    `toml:"accel_root"`
	AccelRedirect     bool      `toml:"accel_redirect"`
	IgnoreClientAbort bool      `toml:"ignore_client_abort"`

	Intercept `toml:",inline"`
}

// UpstreamName returns the name of the [[upstream]] that the route uses, "" if it has addresses of
// its own.
func (s *Settings) UpstreamName() string { return s.Upstream }

// UseUpstream takes the name of one of several that the key upstream stands for.
func (s *Settings) UseUpstream(name string) { s.Upstream = name }

// Shared are the keys that stand in the route, or in the [[upstream]] that it uses.
type Shared struct {
	Balance  string `toml:"balance" default:"round_robin" oneof:"round_robin least_conn random hash ip_hash"`
	Hash     string `toml:"hash"`
	Sticky   Sticky `toml:"sticky"`
	MaxConns int    `toml:"max_conns" min:"0"`
	MaxQueue int    `toml:"max_queue" min:"0" default:"1024"`

	MaxFails    int           `toml:"max_fails" min:"-1" default:"3"`
	FailTimeout time.Duration `toml:"fail_timeout" min:"1ms" default:"10s"`
	FailStatus  []int         `toml:"fail_status"`
	SlowStart   time.Duration `toml:"slow_start" min:"0s"`
	Circuit     Circuit       `toml:"circuit"`
	Health      Health        `toml:"health"`
	TryFor      time.Duration `toml:"try_for" min:"0s"`

	Source         string        `toml:"source"`
	QueueTimeout   time.Duration `toml:"queue_timeout" min:"1ms" default:"60s"`
	ConnectTimeout time.Duration `toml:"connect_timeout" min:"1ms" default:"5s"`
	SendTimeout    time.Duration `toml:"send_timeout" min:"1ms" default:"60s"`
	ReadTimeout    time.Duration `toml:"read_timeout" min:"1ms" default:"60s"`
}

// Gateway are the keys that fastcgi, uwsgi and scgi have in common.
type Gateway struct {
	Params        map[string]string `toml:"params"`
	TrustedFields []string          `toml:"trusted_fields" default:"Forwarded X-Forwarded-For X-Forwarded-Host X-Forwarded-Port X-Forwarded-Proto X-Real-IP"`
	MaxBodySize   conn.Size         `toml:"max_body_size" min:"0B"`

	Settings `toml:",inline"`
}

// Sticky is the key `sticky`: a cookie of the server's, by which a client comes back to the address
// that has answered it first. The words are those of nginx.
type Sticky struct {
	// Name of the cookie; empty: there is none.
	Name string `toml:"name"`
	// Expires is for how long a client comes back after its last request, give or take a half; 0s:
	// as long as its browser is open.
	Expires time.Duration `toml:"expires" min:"0s"`
	// Domain of the cookie; empty: the host that was asked.
	Domain string `toml:"domain"`
	// Path of the cookie.
	Path string `toml:"path" default:"/"`
	// HTTPOnly keeps scripts of pages from reading it.
	HTTPOnly bool `toml:"httponly" default:"true"`
	// Secure has browsers send it over TLS only. auto: if the client has come by TLS.
	Secure string `toml:"secure" oneof:"auto on off" default:"auto"`
	// SameSite is for requests that other sites cause.
	SameSite string `toml:"samesite" oneof:"strict lax none" default:"lax"`
	// Secret signs the cookie, with at least 16 bytes, such as "${file:/etc/lwango/sticky.key}". It
	// makes cookies good for other servers, and after a restart. Without it they are good for as long
	// as the process runs.
	Secret string `toml:"secret"`
}

// Split is an entry of the key `split`: upstreams for some of a route's requests, in the place of
// those of address.
type Split struct {
	// Name is what logs call it.
	Name string `toml:"name"`
	// Share is for how many of the requests it is, in percent, by what split_by says of them.
	Share float64 `toml:"share"`
	// Cookie is for which values of cookies it is, whatever the share; one of them is enough.
	Cookie map[string]string `toml:"cookie"`
	// Header is the same for fields of the request.
	Header map[string]string `toml:"header"`
	// Address is where its upstreams listen.
	Address []string `toml:"address"`
}

// Circuit is the key `circuit`: an address gets no requests while too large a share of them fails.
type Circuit struct {
	// Errors is that share in percent; 0: there is no such limit.
	Errors int `toml:"errors" min:"0" max:"100"`
	// Requests is how many there must be in the window.
	Requests int `toml:"requests" min:"1" default:"20"`
	// Window is the time in which they are counted.
	Window time.Duration `toml:"window" min:"100ms" default:"10s"`
	// Open is for how long no request is sent. Then one at a time tries whether the address works.
	Open time.Duration `toml:"open" min:"10ms" default:"10s"`
}

// Health is the key `health`: checks of the server's own, by which it finds out whether an upstream
// works.
type Health struct {
	// Type is what a check does: a request of the module's protocol, or a connection alone.
	Type string `toml:"type" oneof:"request tcp" default:"request"`
	// Path is what is asked for; empty: there are no requests.
	Path string `toml:"path"`
	// Status is which answers are good ones.
	Status string `toml:"status" default:"200-399"`
	// Body is a text that a good answer has in the first 64 KiB of its body.
	Body string `toml:"body"`
	// Port is where checks connect to; 0: where requests do.
	Port int `toml:"port" min:"0" max:"65535"`
	// Host is what the request names; empty: what the requests of clients do, or the address.
	Host string `toml:"host"`
	// Interval is between two checks of an address.
	Interval time.Duration `toml:"interval" min:"100ms" max:"1h" default:"5s"`
	// Timeout is for a check.
	Timeout time.Duration `toml:"timeout" min:"10ms" max:"1m" default:"1s"`
	// Rises is how many good answers in a row bring an address back.
	Rises int `toml:"rises" min:"1" max:"100" default:"2"`
	// Falls is how many bad ones take it away.
	Falls int `toml:"falls" min:"1" max:"100" default:"3"`
}

// Intercept are the keys of answers that a page of the site takes the place of.
type Intercept struct {
	InterceptErrors   bool     `toml:"intercept_errors"`
	InterceptStatuses []string `toml:"intercept_statuses"`
}

// TLS is the key `tls`: how TLS is spoken with the upstreams whose addresses begin with "https://".
type TLS struct {
	CA   string `toml:"ca"`   // a PEM file of authorities; "": those of the system
	Name string `toml:"name"` // of the certificate, and for SNI; "": the host of the address
	Cert string `toml:"cert"` // a PEM file: the certificate for upstreams that ask for one
	Key  string `toml:"key"`  // its key
	// decrypts a key that is encrypted
	KeyPassword string `toml:"key_password"`
	// a file of revocation lists, PEM or DER, for the upstream's chain
	CRL      string `toml:"crl"`
	Insecure bool   `toml:"insecure"` // take any certificate
}
