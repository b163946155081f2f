package upstream

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/lwango/lwango/internal/base/confpath"
)

// serverConfig is a server in the configuration of one route: an address with its options.
type serverConfig struct {
	name   string
	weight int
	level  int // 1: a backup
	// in place of the Group's; 0: none of its own
	maxConns, maxFails int
	key                backendKey // of a DNS name: address has the name as its host, not yet resolved

	// Of a DNS name. The pool's lock guards dnsVersion and targetErrs.
	dnsName    *dnsName // nil: none
	port       uint16
	dnsVersion int // of dnsName's addresses in the group

	targetErrs int // how many of dnsName's the group has reported

	security *Security // nil: no TLS
}

// parse reads an address, perhaps followed by options: "unix:/run/php.sock", "[::1]:9000 weight=2
// max_conns=8 backup", and with schemes "https://app.example". The path of a socket may be relative
// to dir. http2 says that the address speaks HTTP/2, as an address with "h2c://" always does.
func parse(text, dir string, schemes, http2 bool) (*serverConfig, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, errors.New("expected unix:/path or host:port")
	}
	sc := &serverConfig{name: words[0], weight: 1}
	at := &sc.key
	where, port := words[0], ""
	at.http2 = http2
	if schemes {
		if rest, ok := strings.CutPrefix(where, "https://"); ok {
			where, port, at.secure = rest, "443", true
		} else if rest, ok := strings.CutPrefix(where, "http://"); ok {
			where, port = rest, "80"
		} else if rest, ok := strings.CutPrefix(where, "h2c://"); ok {
			where, port, at.http2 = rest, "80", true
		}
	}
	if path, ok, err := confpath.Socket(dir, where); ok {
		if err != nil {
			return nil, err
		}
		at.network, at.address = "unix", path
	} else if ServiceOf(where) != "" {
		at.network, at.address, at.dns = "tcp", where, where
	} else {
		if strings.Contains(where, "/") && port != "" {
			return nil, fmt.Errorf(
				"%s: expected no path: the upstream gets that of the request", words[0])
		}
		host, given, err := net.SplitHostPort(where)
		switch {
		case err == nil:
			port = given
		case port != "":
			where += ":" + port
			host, _, err = net.SplitHostPort(where)
		}
		if err != nil || host == "" {
			return nil, fmt.Errorf("expected unix:/path or host:port, not %q", words[0])
		}
		if ServiceOf(host) != "" {
			return nil, fmt.Errorf("%s: the records of a service have the ports; expected none", words[0])
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return nil,
				fmt.Errorf("%s: expected a port between 1 and 65535, not %q", words[0], port)
		}
		at.network, at.address, sc.port = "tcp", where, uint16(n)
		if _, err := netip.ParseAddrPort(where); err != nil {
			at.dns = host
		}
	}
	for _, option := range words[1:] {
		switch name, value, _ := strings.Cut(option, "="); {
		case option == "backup":
			sc.level = 1
		case name == "weight" && ServiceOf(where) != "":
			return nil, fmt.Errorf("%s: the records of the service have the weights", words[0])
		case name == "weight":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > 1000 {
				return nil,
					fmt.Errorf("%s: expected a weight between 1 and 1000, not %q", words[0], value)
			}
			sc.weight = n
		case name == "max_conns":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("%s: expected a max_conns of at least 1, not %q", words[0], value)
			}
			sc.maxConns = n
		case name == "max_fails":
			n, err := strconv.Atoi(value)
			if err != nil || n < -1 || n == 0 {
				return nil, fmt.Errorf("%s: expected a max_fails above 0, or -1, which is none, not %q",
					words[0], value)
			}
			sc.maxFails = n
		default:
			return nil,
				fmt.Errorf("%s: expected weight=N, max_conns=N, max_fails=N or backup, not %q", words[0],
					option)
		}
	}
	return sc, nil
}
