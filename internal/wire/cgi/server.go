package cgi

import (
	"strings"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// ServerName returns SERVER_NAME for a request with that authority, on a site that answers to these
// names. A name may be a wildcard ("*.example.org"). The result is empty if there are no names.
//
// Programs put it into links and mails, so a client must not be able to choose it: if the site does
// not have the name that the request asks for, the result is the site's first name. If it has, the
// result is that name. What stands for the asterisk of a wildcard comes from the client, and may be
// all that RFC 3986 allows in a host, quotes included. So it counts only if it consists of letters,
// digits, hyphens and dots.
func ServerName(names []string, authority string) string {
	if len(names) == 0 {
		return ""
	}
	host, _ := http1.SplitPort(authority)
	host = strings.TrimSuffix(host, ".")
	first := ""
	for _, name := range names {
		suffix, wild := strings.CutPrefix(name, "*")
		switch {
		case !wild && ascii.EqualFold(unbracketed(name), unbracketed(host)):
			return bracketed(name)
		case wild && len(host) > len(suffix) &&
			ascii.EqualFold(host[len(host)-len(suffix):], suffix) && isPlainName(host):
			return host
		case !wild && first == "":
			first = bracketed(name)
		}
	}
	if first == "" {
		first = strings.TrimPrefix(names[0], "*.")
	}
	return first
}

// isPlainName reports whether a name consists of letters, digits, hyphens and dots.
func isPlainName(name string) bool {
	for _, c := range []byte(name) {
		if c = ascii.Lower(c); (c < 'a' || c > 'z') && (c < '0' || c > '9') &&
			c != '-' && c != '.' {
			return false
		}
	}
	return true
}

func unbracketed(name string) string {
	if len(name) > 1 && name[0] == '[' {
		return name[1 : len(name)-1]
	}
	return name
}

// bracketed returns an IPv6 address as it stands in a URL (RFC 3875 section 4.1.14), and any other
// name unchanged.
func bracketed(name string) string {
	if name[0] != '[' && strings.IndexByte(name, ':') >= 0 {
		return "[" + name + "]"
	}
	return name
}
