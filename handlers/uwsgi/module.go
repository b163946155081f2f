// Package uwsgi is the module `uwsgi`. It passes requests on to an application by the protocol of
// that name: to uWSGI, which runs applications of Python, Ruby or Perl.
//
//	[[site.route]]
//	prefix = "/"
//	module = "uwsgi"
//	address = "unix:/run/uwsgi/app.sock"
//
// A packet has the variables of CGI, and the body follows as it is; the answer ends with the
// connection. internal/modules/gateway does all else.
package uwsgi

import (
	"encoding/binary"
	"errors"

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
	Address   []string `toml:"address"`
	Modifier1 int      `toml:"modifier1" min:"0" max:"255"`
	Modifier2 int      `toml:"modifier2" min:"0" max:"255"`
	// BufferSize is that of uWSGI: how many bytes of variables it takes. It closes the connection of a
	// request with more in silence, as if it had died.
	BufferSize handlers.Size `toml:"buffer_size" min:"1KiB" max:"65535" default:"4KiB"`

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
	handlers.RegisterModule(r, "uwsgi", Defaults,
		func(s Settings, env handlers.Env) (conn.Handler, error) {
			f := framing(byte(s.Modifier1), byte(s.Modifier2))
			f.MaxSize = int(s.BufferSize)
			accel, err := servefiles.OpenAccel(s.AccelRoot, s.AccelRedirect, env)
			if err != nil {
				return nil, err
			}
			missing := errors.New(
				`missing: where the application listens, such as "unix:/run/uwsgi/app.sock"`)
			return gateway.Plain("uwsgi", f, s.Gateway, upstream.Settings{Addresses: s.Address},
				missing, accel, env, p)
		}, handlers.Buffering)
}

// framing is a packet: the first modifier, the length of the variables in two bytes, the least
// significant first, and the second modifier.
func framing(modifier1, modifier2 byte) gateway.Framing {
	const header = 4
	return gateway.Framing{Format: cgi.UWSGI, Room: header, Seal: func(b []byte, from int) []byte {
		b = b[from-header:]
		b[0], b[3] = modifier1, modifier2
		binary.LittleEndian.PutUint16(b[1:], uint16(len(b)-header))
		return b
	}}
}
