package upstream

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/lwango/lwango/internal/base/sysio"
)

// ParseSource reads the local address for connections, which must be one of this machine; "": none.
func ParseSource(text string) (netip.Addr, error) {
	if text == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.IsUnspecified() || a.IsMulticast() {
		return netip.Addr{}, fmt.Errorf("expected an address of this machine, without a port, not %q",
			text)
	}
	a = a.Unmap()
	ln, err := net.Listen("tcp", netip.AddrPortFrom(a, 0).String())
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return netip.Addr{}, fmt.Errorf("%s is no address of this machine", text)
	case err != nil:
		return netip.Addr{}, fmt.Errorf("%s: %w", text, err)
	}
	ln.Close()
	return a, nil
}

// checkSource returns an error if an address of the group cannot be reached from its Source.
func (g *Group) checkSource() error {
	if !g.Source.IsValid() {
		return nil
	}
	for _, sc := range g.configured {
		if at, err := netip.ParseAddrPort(sc.key.address); sc.key.network == "tcp" && err == nil &&
			at.Addr().Unmap().Is4() != g.Source.Is4() {
			return fmt.Errorf("%s: source = %q is an address of the other family", sc.name, g.Source)
		}
	}
	if !slices.ContainsFunc(g.configured, func(sc *serverConfig) bool {
		return sc.key.network == "tcp"
	}) {
		return errors.New("a connection to a UNIX socket comes from no address: source has no effect")
	}
	return nil
}

// reaches reports whether connections from the group's Source can go to an address of a name.
func (g *Group) reaches(a netip.Addr) bool {
	return !g.Source.IsValid() || a.Is4() == g.Source.Is4()
}

// dialer returns the dialer for checks of the backend.
func (b *backend) dialer() *net.Dialer {
	d := new(net.Dialer)
	if b.source.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(b.source, 0))
		d.Control = func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { sysio.ShareSourcePort(int(fd)) })
		}
	}
	return d
}
