package tcpproxy

import (
	"strings"
	"time"

	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/process/sockets"
	"github.com/lwango/lwango/internal/tls/certs"
)

// Settings is a [[stream]]: a listener whose connections are passed on to upstreams.
type Settings struct {
	Table            settings.Table `toml:",table"`
	sockets.Endpoint `toml:",inline"`
	TLS              certs.TLS `toml:",inline"`

	// TrustedProxies are the peers that send proxy_protocol: networks, addresses, and "unix:".
	TrustedProxies []string `toml:"trusted_proxies"`
	// ProxyProtocol is whether connections begin with a header of the PROXY protocol.
	ProxyProtocol bool `toml:"proxy_protocol"`

	// Allow are the networks whose clients may connect; without any, all may.
	Allow []string `toml:"allow"`
	// Deny are networks whose clients may not, even if they are allowed.
	Deny []string `toml:"deny"`

	// HeaderTimeout is for what a client has to send before an upstream is chosen: a header of the
	// PROXY protocol, its TLS handshake.
	HeaderTimeout time.Duration `toml:"header_timeout" min:"1ms" max:"24h" default:"10s"`
	// IdleTimeout ends a connection on which no byte has moved for so long.
	IdleTimeout time.Duration `toml:"idle_timeout" min:"1ms" max:"8760h" default:"10m"`
	// MaxTime ends a connection that is so old; 0s: none is too old.
	MaxTime time.Duration `toml:"max_time" min:"0s" max:"8760h" default:"0s"`
	// MaxConnections bounds the connections of this listener; 0: an eighth of the descriptors of the
	// process, for all streams together.
	MaxConnections int `toml:"max_connections" min:"0" max:"100000000" default:"0"`
	// MaxConnectionsPerAddress bounds those of an IPv4 address or an IPv6 /64; 0: a quarter of
	// max_connections, -1: any number.
	MaxConnectionsPerAddress int `toml:"max_connections_per_address" min:"-1" max:"100000000" default:"0"`

	// AccessLog has a line for each connection; its path is that of the server's unless it has one.
	AccessLog *accesslog.Config `toml:"access_log"`
	// Routes are the groups of upstreams, which the name chooses that a client of TLS asks for.
	Routes []Route `toml:"route"`
}

// Route is a [[stream.route]]: a group of upstreams.
type Route struct {
	Table settings.Table `toml:",table"`
	// SNI are the names that lead here, with *.example.org for all below one; without any, the route
	// is for all others, and for clients that ask for none.
	SNI []string `toml:"sni"`
	// Upstream is the name of the [[upstream]] that has the keys below.
	Upstream string `toml:"upstream"`
	// Address is where the upstreams listen, as the module proxy has it, with tls:// in front of those
	// that TLS is spoken with.
	Address []string `toml:"address"`
	// TLS is how upstreams with tls:// are verified.
	TLS upstreams.TLS `toml:"tls"`
	// Balance is how one of them is chosen; with ip_hash by the client's address.
	Balance string `toml:"balance" oneof:"round_robin least_conn random hash ip_hash" default:"round_robin"`
	// Hash is what balance = "hash" goes by: a text with {address}, the client's, or {name}, that of
	// SNI.
	Hash string `toml:"hash"`
	// MaxFails is how many connections in a row must fail before an address is avoided, if there are
	// others; -1: none is avoided.
	MaxFails int `toml:"max_fails" min:"-1" default:"1"`
	// FailTimeout is for how long. Then one connection tries it.
	FailTimeout time.Duration `toml:"fail_timeout" min:"1ms" default:"10s"`
	// MaxConns bounds the connections to each address, of the whole process; 0: any number.
	MaxConns int `toml:"max_conns" min:"0" default:"0"`
	// MaxQueue is how many connections may wait for that.
	MaxQueue int `toml:"max_queue" min:"0" default:"1024"`
	// QueueTimeout is for how long one may wait.
	QueueTimeout time.Duration `toml:"queue_timeout" min:"1ms" default:"60s"`
	// ConnectTimeout is for making the connection, with as many addresses as are tried.
	ConnectTimeout time.Duration `toml:"connect_timeout" min:"1ms" default:"5s"`
	// ProxyProtocol is which header of the PROXY protocol the upstreams get ahead of all else, "v1" or
	// "v2"; empty: none.
	ProxyProtocol string `toml:"proxy_protocol" oneof:"v1 v2"`
	// Source is the address of this machine that connections come from; empty: the system chooses it.
	Source string `toml:"source"`
	// Health is connections of the server's own, which find out which addresses work.
	Health Health `toml:"health"`

	Shared *around.Shared // of Upstream; nil: there is none
}

// Health is the key `health`: an address works if a connection can be made to it.
type Health struct {
	// Interval is between two checks of an address; 0s: there are none.
	Interval time.Duration `toml:"interval" min:"0s" max:"1h" default:"0s"`
	// Timeout is for a check.
	Timeout time.Duration `toml:"timeout" min:"10ms" max:"1m" default:"1s"`
	// Rises is how many connections in a row bring an address back.
	Rises int `toml:"rises" min:"1" max:"100" default:"2"`
	// Falls is how many failures in a row take it away.
	Falls int `toml:"falls" min:"1" max:"100" default:"3"`
}

// name returns the route's name on the status page.
func (r *Route) name() string {
	if len(r.SNI) == 0 {
		return "*"
	}
	return strings.Join(r.SNI, " ")
}
