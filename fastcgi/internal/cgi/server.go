package cgi

import "strings"

// ServerName is the SERVER_NAME of a site that answers to these names, wildcards ("*.example.org") among them, for a
// request with that authority; empty for a site that answers to any.
//
// Programs make links and mails with it, so it is never what a client merely claims: a name that the site does not have
// becomes its first one. Where several of its names are in use, each request has its own.
func ServerName(names []string, authority string) string {
	host, _ := splitHost(authority)
	host = strings.TrimSuffix(host, ".")
	first := ""
	for _, name := range names {
		suffix, wild := strings.CutPrefix(name, "*")
		switch {
		case !wild && equalFold(unbracketed(name), unbracketed(host)):
			return bracketed(name)
		case wild && len(host) > len(suffix) && equalFold(host[len(host)-len(suffix):], suffix):
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
