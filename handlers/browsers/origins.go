package browsers

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/lwango/lwango/internal/base/ascii"
)

// origins is a set of origins (RFC 6454 section 6.2). It does not change.
type origins struct {
	all       bool
	exact     map[string]string // from an origin to itself
	wildcards []wildcard
}

// wildcard stands for the origins of all hosts below a name.
type wildcard struct {
	scheme string // with "://"
	below  string // the name and perhaps a port, with the dot in front
}

// parseOrigins reads a list such as "https://example.org", "https://*.example.org" and "*".
func parseOrigins(list []string) (*origins, error) {
	o := &origins{exact: make(map[string]string)}
	if len(list) == 0 {
		return nil, errors.New(`expected at least one, such as "https://app.example.org"`)
	}
	for _, text := range list {
		if text == "*" {
			o.all = true
			continue
		}
		scheme, host, err := splitOrigin(text)
		if err != nil {
			return nil, err
		}
		if below, ok := strings.CutPrefix(host, "*"); ok {
			o.wildcards = append(o.wildcards, wildcard{scheme, below})
		} else {
			o.exact[text] = text
		}
	}
	return o, nil
}

// splitOrigin returns the two parts of an origin, checked: its scheme with "://", and the rest. An
// origin is compared as browsers send it, so it must be written as they do.
func splitOrigin(text string) (scheme, host string, err error) {
	wrong := func(why string) (string, string, error) {
		return "", "", fmt.Errorf(`%q: %s; expected an origin such as "https://app.example.org", `+
			`"http://localhost:3000" or "https://*.example.org"`, text, why)
	}
	scheme, host, ok := strings.Cut(text, "://")
	switch {
	case text == "null":
		return wrong("any page can have that origin, by a sandboxed frame")
	case !ok || scheme == "":
		return wrong("there is no scheme")
	case strings.ContainsAny(host, "/?#@"):
		return wrong("an origin has no path and no user")
	case ascii.ToLower(text) != text:
		return wrong("browsers send small letters")
	case strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+-.") != "":
		return wrong("that is no scheme")
	case scheme == "https" && strings.HasSuffix(host, ":443"),
		scheme == "http" && strings.HasSuffix(host, ":80"):
		return wrong("browsers leave out the usual port")
	}
	name, wild := strings.CutPrefix(host, "*.")
	if !validHost([]byte(name)) || wild && strings.HasPrefix(name, "[") {
		return wrong("that is no host")
	}
	return scheme + "://", host, nil
}

// validHost reports whether b can be a host in an origin, with a port or without.
func validHost(b []byte) bool {
	for _, c := range b {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', bytes.IndexByte([]byte("-._:[]"), c) >= 0:
		default:
			return false
		}
	}
	return len(b) > 0 && b[0] != '.' && b[0] != ':'
}

// has reports whether an origin is in the set, and returns it as a string if it is one of those
// that are named, so that nothing is allocated.
func (o *origins) has(origin []byte) (named string, ok bool) {
	if named, ok = o.exact[string(origin)]; ok {
		return named, true
	}
	for _, w := range o.wildcards {
		host, ok := bytes.CutPrefix(origin, []byte(w.scheme))
		if ok && len(host) > len(w.below) && bytes.HasSuffix(host, []byte(w.below)) &&
			validHost(host[:len(host)-len(w.below)]) {
			return "", true
		}
	}
	return "", o.all
}
