package config

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/process/sockets"
	"github.com/lwango/lwango/internal/tls/certs"
)

// override replaces keys of the file by the settings that the program makes in code. A relative
// path of these begins in dir. Errors of its ACME are in c.code.
func (s Source) override(c *Config, dir string) error {
	if s.Code == nil {
		return nil
	}
	listeners, topics := c.Listeners, c.Pubsub // listeners are for the sites that name them
	tags.Override(c, s.Code)
	c.Listeners, c.Pubsub, c.Grace = listeners, topics, max(c.Grace, -1)
	if url := s.Code.Pubsub.URL; url != "" {
		if err := checkBroker(s.Broker, url); err != nil {
			return fmt.Errorf("PubsubURL: %w", err)
		}
		c.Pubsub.URL = url
	}
	if a := s.Code.TLS.ACME; a != nil {
		c.code = settings.Parse("ACME", dir, "")
		own := *a
		own.Table, own.Domains = c.code.Root(), slices.Clone(a.Domains)
		own.Authority.Table = own.Table
		for _, name := range own.Challenges {
			if !slices.Contains(certs.Challenges, name) {
				own.Table.Errorf("challenges", "expected %q, found %q", certs.Challenges, name)
			}
		}
		if slices.Contains(own.Challenges, certs.Challenges[2]) {
			own.DNS = new(tags.Defaults[certs.DNS]())
			own.DNS.Table = own.Table
		}
		own.Records = s.DNS
		own.Check(dir, s.FoldersMade, false)
		c.TLS.ACME = &own
	}
	return tags.Check(c)
}

// err returns the errors of the text, or else those of what override has read.
func (c *Config) err() error {
	if err := c.text.Err(); err != nil || c.code == nil {
		return err
	}
	return c.code.Err()
}

// replacesListeners reports whether the program has listeners that replace those of the file.
func (s Source) replacesListeners() bool { return s.Code != nil && len(s.Code.Listeners) > 0 }

// secure completes the TLS of a listener of the program.
func (s Source) secure(c *Config, l *Listener) error {
	own := l.TLS.Config
	acme := len(l.TLS.Files) > 0
	switch {
	case own == nil && !acme:
		return nil
	case l.Streams != nil && acme:
		return errors.New("ACME is for HTTP, and not for a handler of streams")
	case l.Streams != nil:
		return errors.New("TLS is for HTTP, a handler of streams uses tls.Server")
	case acme && c.TLS.ACME == nil:
		return errors.New("ACME: the Server has no ACME, and [tls] of its File has none")
	case !acme && len(own.Certificates) == 0 && own.GetCertificate == nil &&
		own.GetConfigForClient == nil:
		return errors.New("TLS has no certificate")
	case acme && own != nil && (len(own.Certificates) > 0 || own.GetCertificate != nil ||
		own.GetConfigForClient != nil):
		return errors.New("TLS has certificates of its own, beside those of ACME")
	case own == nil:
		own = new(tls.Config)
	}
	l.TLS.Config, l.HTTP2 = certs.OfferHTTP1(own), true // to whom it offers that
	if acme {
		l.TLS.Files = []certs.Files{{Table: c.TLS.ACME.Table, ACME: true}}
		l.TLS.Check(certs.Context{ACME: c.TLS.ACME, Protocols: l.TLS.Config.NextProtos, Reader: c.reader,
			Log: s.Logger})
	}
	return nil
}

// trust completes the proxies of a listener of the program.
func (l *Listener) trust() (err error) {
	if l.Streams != nil {
		switch {
		case len(l.TrustedProxies) > 0:
			return errors.New("TrustedProxies are for HTTP, and not for a handler of streams")
		case l.ProxyFields != "":
			return errors.New("ProxyFields are for HTTP, and not for a handler of streams")
		case l.ProxyProtocol:
			return errors.New("ProxyProtocol is for HTTP, and not for a handler of streams")
		}
	}
	if err := tags.Check(l); err != nil {
		return err
	}
	l.parseProxies(func(key, format string, args ...any) {
		field := map[string]string{"trusted_proxies": "TrustedProxies", "proxy_fields": "ProxyFields",
			"proxy_protocol": "ProxyProtocol"}[key]
		err = cmp.Or(err, fmt.Errorf(field+": "+format, args...))
	})
	return err
}

// listeners replaces the listeners of the file in c by those of the program, if there are any. A
// relative path begins in dir.
func (s Source) listeners(c *Config, dir string) error {
	if !s.replacesListeners() {
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
		if l.HTTP2 && l.Streams != nil {
			return fmt.Errorf("listen %s: HTTP2 is for HTTP, and not for a handler of streams", l.Listen)
		}
		if err := cmp.Or(s.secure(c, &l), l.trust()); err != nil {
			return fmt.Errorf("listen %s: %w", l.Listen, err)
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
