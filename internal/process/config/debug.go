package config

import (
	"fmt"

	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/process/sockets"
)

// Debug is [debug].
type Debug struct {
	Table settings.Table `toml:",table"`
	// Address is where profiles, traces and a list of the threads can be had: a UNIX socket, or
	// host:port of this machine; empty: nowhere.
	Address string `toml:"address"`
	// Remote lets the address be one that other machines reach. Then no upstream can be drained there.
	Remote bool `toml:"allow_remote"`

	At sockets.Address // of Address; its Network is "" if there is none
}

// checkDebug reads the address. Profiles and traces show what clients send, and let their reader
// use a processor for as long as it likes. So an address that other machines reach is refused
// without allow_remote.
func (c *Config) checkDebug() {
	d := &c.Debug
	if d.Address == "" {
		if d.Table.Has("address") || d.Remote {
			d.Table.Errorf("address", `expected something like "unix:/run/lwango/debug.sock"`)
		}
		return
	}
	at, err := sockets.ParseAddress(d.Address, c.Dir)
	switch {
	case err != nil:
		d.Table.Errorf("address", "%v", err)
		return
	case at.Network == "systemd":
		d.Table.Errorf("address", "expected unix:path or host:port, found %q", d.Address)
		return
	case at.Network == "tcp" && !d.Remote && !at.Loopback():
		d.Table.Errorf("address", "other machines could read what clients send: expected unix:path "+
			"or an address such as 127.0.0.1:6060, or allow_remote = true")
		return
	}
	d.At = at
}

// checkApart checks that no listener, of the file or the command line, has the debug address: with
// SO_REUSEPORT, each would get a part of the other's connections.
func (c *Config) checkApart() error {
	for _, l := range c.Listeners {
		if c.Debug.At.Overlaps(l.Address) {
			return c.Debug.Table.Wrong("address", fmt.Errorf("clients connect to that one: there is a "+
				"listener at %s", l.Address))
		}
	}
	return nil
}
