package config

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/certs"
	"github.com/lwango/lwango/internal/sockets"
	"github.com/lwango/lwango/internal/tags"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Embedding is what a program says in code, in the place of flags and a file. What is zero stands
// for what the file says, or else for the default. Package lwango documents the fields.
type Embedding struct {
	File          string
	Listeners     []Listening
	Handler       conn.Handler // nil: the routes of the Program
	NoCompression bool

	conn.Limits

	Grace   time.Duration
	Threads int
	Workers int
	Handoff coro.Handoff

	AccessLog func(*conn.AccessEntry)
}

// Listening is one listener of an Embedding.
type Listening struct {
	Addr    string
	Socket  net.Listener
	TLS     *tls.Config
	Streams func(*loop.Thread, *stream.Stream) error
	Idle    time.Duration
}

// limits puts the limits of e, which may be nil, into c, before they are checked.
func (e *Embedding) limits(c *Config) error {
	if e == nil {
		return nil
	}
	if err := tags.Check(e.Limits); err != nil {
		return err
	}
	c.Limits = tags.Or(e.Limits, c.Limits)
	for _, n := range []struct {
		name string
		from int
		to   *int
		high int
	}{
		{"Threads", e.Threads, &c.Threads, 1024},
		{"Workers", e.Workers, &c.Workers, 1e5},
	} {
		if n.from == 0 {
			continue
		}
		if n.from < 1 || n.from > n.high {
			return fmt.Errorf("%s: must be between 1 and %d, found %d", n.name, n.high, n.from)
		}
		*n.to = n.from
	}
	if e.Grace != 0 {
		c.Grace = max(e.Grace, 0)
	}
	if e.Handoff != coro.Direct {
		c.Handoff = e.Handoff.String()
	}
	if e.NoCompression {
		c.Compress.On = new(bool)
	}
	return nil
}

// listeners puts the listeners of e, which may be nil, into c, in the place of those of the file.
// A relative path begins in dir. open are the addresses of sockets with ports that the kernel has
// chosen, by host and that port.
func (e *Embedding) listeners(c *Config, dir string, open map[string]sockets.Address) error {
	if e == nil || len(e.Listeners) == 0 {
		return nil
	}
	c.Listeners = nil
	used := map[sockets.Address]bool{}
	var free []int // listeners with a port that the kernel chooses, or has chosen
	for _, l := range e.Listeners {
		lc := Listener{Endpoint: sockets.Endpoint{Listen: l.Addr, Given: l.Socket},
			Streams: l.Streams, Idle: l.Idle}
		switch {
		case l.Socket != nil && l.Addr != "":
			return fmt.Errorf("listen %s: a Listener has an Addr or a Socket, not both", l.Addr)
		case l.Socket != nil:
			lc.Address = sockets.GivenAddress(l.Socket)
			lc.Listen = lc.Address.String()
		default:
			var err error
			if lc.Address, err = sockets.ParseAddress(l.Addr, dir); err != nil {
				return fmt.Errorf("listen %s: %w", l.Addr, err)
			}
		}
		switch {
		case l.Streams != nil && l.TLS != nil:
			return fmt.Errorf("listen %s: TLS is for HTTP, a handler of streams uses tls.Server",
				lc.Listen)
		case l.TLS != nil && len(l.TLS.Certificates) == 0 && l.TLS.GetCertificate == nil &&
			l.TLS.GetConfigForClient == nil:
			return fmt.Errorf("listen %s: TLS has no certificate", lc.Listen)
		case l.TLS != nil:
			lc.TLS.Config = certs.OnlyHTTP1(l.TLS)
		}
		if lc.Address.Port() == 0 {
			free = append(free, len(c.Listeners))
		} else {
			if chosen, ok := open[lc.Address.Name]; ok && lc.Address.Network == chosen.Network {
				lc.Address = chosen
			}
			if used[lc.Address] {
				return fmt.Errorf("listen %s: the address is listened to twice", lc.Listen)
			}
			used[lc.Address] = true
		}
		c.Listeners = append(c.Listeners, lc)
	}
	before := slices.SortedFunc(maps.Values(open), func(a, b sockets.Address) int {
		return cmp.Compare(a.Number, b.Number)
	})
	for _, i := range free {
		a := &c.Listeners[i].Address
		if at := slices.IndexFunc(before, func(b sockets.Address) bool {
			return b.Name == a.Name && !used[b]
		}); at >= 0 {
			*a = before[at]
		}
		for used[*a] {
			a.Number++
		}
		used[*a] = true
	}
	return nil
}
