package upstream

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/lwango/lwango/internal/confpath"
)

// parse reads an address, perhaps with options behind it: "unix:/run/php.sock", "[::1]:9000
// weight=2 backup", and with schemes "https://app.example". The path of a socket may be relative to
// dir.
func parse(text, dir string, schemes bool) (*member, endpoint, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, endpoint{}, errors.New("expected unix:/path or host:port")
	}
	m := &member{name: words[0], weight: 1}
	var at endpoint
	place, port := words[0], ""
	if schemes {
		if rest, ok := strings.CutPrefix(place, "https://"); ok {
			place, port, at.secure = rest, "443", true
		} else if rest, ok := strings.CutPrefix(place, "http://"); ok {
			place, port = rest, "80"
		}
	}
	if path, ok, err := confpath.Socket(dir, place); ok {
		if err != nil {
			return nil, endpoint{}, err
		}
		at.network, at.address = "unix", path
	} else {
		if strings.Contains(place, "/") && port != "" {
			return nil, endpoint{}, fmt.Errorf(
				"%s: expected no path: the upstream gets that of the request", words[0])
		}
		host, given, err := net.SplitHostPort(place)
		switch {
		case err == nil:
			port = given
		case port != "":
			place += ":" + port
			host, _, err = net.SplitHostPort(place)
		}
		if err != nil || host == "" {
			return nil, endpoint{}, fmt.Errorf("expected unix:/path or host:port, not %q", words[0])
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, endpoint{},
				fmt.Errorf("%s: expected a port between 1 and 65535, not %q", words[0], port)
		}
		at.network, at.address = "tcp", place
	}
	for _, option := range words[1:] {
		switch name, value, _ := strings.Cut(option, "="); {
		case option == "backup":
			m.backup = true
		case name == "weight":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > 1000 {
				return nil, endpoint{},
					fmt.Errorf("%s: expected a weight between 1 and 1000, not %q", words[0], value)
			}
			m.weight = n
		default:
			return nil, endpoint{},
				fmt.Errorf("%s: expected weight=N or backup, not %q", words[0], option)
		}
	}
	return m, at, nil
}
