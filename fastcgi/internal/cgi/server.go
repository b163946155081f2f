package cgi

import (
	"strings"

	"github.com/lwango/lwango/internal/ascii"
)

// ServerName is the SERVER_NAME of a site that answers to these names, wildcards ("*.example.org")
// among them, for a request with that authority; empty for a site that answers to any.
//
// Programs make links and mails with it, so it is never what a client merely claims: a name that
// the site does not have becomes its first one. Where several of its names are in use, each request
// has its own. What stands for the asterisk comes from the client, and may be all that RFC 3986
// allows in a host, quotes included: it counts only if it is of letters, digits, hyphens and dots.
func ServerName(names []string, authority string) string {
	host, _ := splitHost(authority)
	host = strings.TrimSuffix(host, ".")
	first := ""
	for _, name := range names {
		suffix, wild := strings.CutPrefix(name, "*")
		switch {
		case !wild && ascii.EqualFold(unbracketed(name), unbracketed(host)):
			return bracketed(name)
		case wild && len(host) > len(suffix) &&
			ascii.EqualFold(host[len(host)-len(suffix):], suffix) && plain(host):
			return host
		case !wild && first == "":
			first = bracketed(name)
		}
	}
	if first == "" && len(names) > 0 {
		first = strings.TrimPrefix(names[0], "*.")
	}
	return first
}

// plain reports whether a name is of letters, digits, hyphens and dots.
func plain(name string) bool {
	for _, c := range []byte(name) {
		if c = ascii.Lower(c); (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
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

// bracketed is an IPv6 address as it is in a URL (RFC 3875 section 4.1.14), and any other name as it is.
func bracketed(name string) string {
	if name[0] != '[' && strings.IndexByte(name, ':') >= 0 {
		return "[" + name + "]"
	}
	return name
}
