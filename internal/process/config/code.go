package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/process/sockets"
	"github.com/lwango/lwango/internal/tls/certs"
)

// override replaces keys of the file by the settings that the program makes in code.
func (s Source) override(c *Config) error {
	if s.Code == nil {
		return nil
	}
	listeners := c.Listeners // for the sites that name them: see listeners
	tags.Override(c, s.Code)
	c.Listeners, c.Grace = listeners, max(c.Grace, -1)
	return tags.Check(c)
}

// listeners replaces the listeners of the file in c by those of the program, if there are any. A
// relative path begins in dir.
func (s Source) listeners(c *Config, dir string) error {
	if s.Code == nil || len(s.Code.Listeners) == 0 {
		return nil
	}
	c.Listeners = nil
	used := map[sockets.Address]bool{}
	var free []int // listeners with a port that the kernel chooses, or has chosen
	for _, l := range s.Code.Listeners {
		switch {
		case l.Given != nil && l.Listen != "":
			return fmt.Errorf("listen %s: a Listener has an Addr or a Socket, not both", l.Listen)
		case l.Given != nil:
			l.Address = sockets.GivenAddress(l.Given)
			l.Listen = l.Address.String()
		default:
			var err error
			if l.Address, err = sockets.ParseAddress(l.Listen, dir); err != nil {
				return fmt.Errorf("listen %s: %w", l.Listen, err)
			}
		}
		switch own := l.TLS.Config; {
		case l.HTTP2 && l.Streams != nil:
			return fmt.Errorf("listen %s: HTTP2 is for HTTP, and not for a handler of streams", l.Listen)
		case own == nil:
		case l.Streams != nil:
			return fmt.Errorf("listen %s: TLS is for HTTP, a handler of streams uses tls.Server",
				l.Listen)
		case len(own.Certificates) == 0 && own.GetCertificate == nil && own.GetConfigForClient == nil:
			return fmt.Errorf("listen %s: TLS has no certificate", l.Listen)
		default:
			l.TLS.Config, l.HTTP2 = certs.OfferHTTP1(own), true // to whom it offers that
		}
		if l.Address.Port() == 0 {
			free = append(free, len(c.Listeners))
		} else {
			if chosen, ok := s.ChosenPorts[l.Address.Name]; ok && l.Address.Network == chosen.Network {
				l.Address = chosen
			}
			if used[l.Address] {
				return fmt.Errorf("listen %s: the address is listened to twice", l.Listen)
			}
			used[l.Address] = true
		}
		c.Listeners = append(c.Listeners, l)
	}
	before := slices.SortedFunc(maps.Values(s.ChosenPorts), func(a, b sockets.Address) int {
		return cmp.Compare(a.Index, b.Index)
	})
	for _, i := range free {
		a := &c.Listeners[i].Address
		if at := slices.IndexFunc(before, func(b sockets.Address) bool {
			return b.Name == a.Name && !used[b]
		}); at >= 0 {
			*a = before[at]
		}
		for used[*a] {
			a.Index++
		}
		used[*a] = true
	}
	return nil
}
