// Package scgi is the module `scgi`. It passes requests on to an application by SCGI.
//
//	[[site.route]]
//	prefix = "/"
//	module = "scgi"
//	address = "127.0.0.1:4000"
//
// A netstring has the variables of CGI, and the body follows as it is; the answer ends with the
// connection. internal/modules/gateway does all else.
package scgi

import (
	"errors"
	"strconv"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/modules/gateway"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/wire/cgi"
)

// Settings are the module's keys.
type Settings struct {
	Address []string `toml:"address"`

	upstreams.Gateway `toml:",inline"`
}

// Defaults are the settings of a route that gives only address.
var Defaults = tags.Defaults[Settings]()

// Descriptors implements handlers.DescriptorHolder, for checks.
func (s Settings) Descriptors() int { return reverseproxy.CheckDescriptors(&s.Settings, s.Address) }

// Register puts the module into r. All routes that are ever built from r share one pool of
// upstreams: connections to one address are counted together.
func Register(r *handlers.Registry) {
	p := new(upstream.Pool)
	handlers.RegisterModule(r, "scgi", Defaults,
		func(s Settings, env handlers.Env) (conn.Handler, error) {
			if _, ok := s.Params["SCGI"]; ok {
				return nil, handlers.BadKey("params", "SCGI is always 1")
			}
			accel, err := servefiles.OpenAccel(s.AccelRoot, s.AccelRedirect, env)
			if err != nil {
				return nil, err
			}
			missing := errors.New(`missing: where the application listens, such as "127.0.0.1:4000"`)
			return gateway.Plain("scgi", framing, s.Gateway, upstream.Settings{Addresses: s.Address},
				missing, accel, env, p)
		}, handlers.Buffering)
}

// framing is a netstring: the length of the variables in decimal, a colon, the variables, and a
// comma.
var framing = gateway.Framing{Format: cgi.SCGI, Room: room, Seal: seal}

// room is for a length and the colon.
const room = len("2147483647:")

func seal(b []byte, from int) []byte {
	var tmp [room]byte
	length := append(strconv.AppendInt(tmp[:0], int64(len(b)-from), 10), ':')
	begin := from - len(length)
	copy(b[begin:], length)
	return append(b[begin:], ',')
}
