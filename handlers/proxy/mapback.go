package proxy

import (
	"strings"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/http1"
)

// mapBack maps what the upstream says of its own addresses back to what the client knows, and
// cookies as the tables say. A route has none where there is nothing to map.
type mapBack struct {
	usual         bool      // map_back
	foreign       bool      // Host is not the client's
	prefix, to    string    // encoded, without a slash at the end; what stands for it at the upstream
	cut           bool      // they differ, and clients know the prefix
	locations     []mapping // by length, the longest first
	cookiePaths   []mapping
	cookieDomains []mapping
}

// ofLocation are the placeholders of map_location.
var ofLocation = []string{"host", "scheme"}

// readMapBack reads map_back and the other map_ keys. The error is a *handlers.KeyError.
func (m *module) readMapBack() (err error) {
	set := &m.set.Paths
	b := &mapBack{usual: set.MapBack, foreign: m.set.Host != "client", to: string(m.path.to)}
	b.prefix = string(http1.AppendPath(nil, []byte(strings.TrimSuffix(m.Env.Prefix, "/"))))
	// A client that is told of an internal prefix could not ask for what is below it.
	b.cut = m.path.cut && b.prefix != b.to && !around.Of(m.Env).Internal
	if b.locations, err = parseMappings("map_location", set.MapLocation, ofLocation); err != nil {
		return err
	}
	if b.cookiePaths, err = parseMappings("map_cookie_path", set.MapCookiePath, nil); err != nil {
		return err
	}
	b.cookieDomains, err = parseMappings("map_cookie_domain", set.MapCookieDomain, ofLocation[:1])
	if err != nil {
		return err
	}
	tables := len(b.locations) + len(b.cookiePaths) + len(b.cookieDomains)
	if b.usual && (b.foreign || b.cut) || tables > 0 {
		m.mapBack = b
	}
	return nil
}

// value returns what the client gets of a field of the upstream's.
func (b *mapBack) value(c *call, name, value string) string {
	switch len(name) {
	case len("Location"):
		if ascii.EqualFold(name, "Location") {
			return b.address(c, value)
		}
	case len("Content-Location"):
		if ascii.EqualFold(name, "Content-Location") {
			return b.address(c, value)
		}
	case len("Refresh"):
		if ascii.EqualFold(name, "Refresh") {
			return b.refresh(c, value)
		}
	case len("Link"):
		if ascii.EqualFold(name, "Link") {
			return b.link(c, value)
		}
	case len("Set-Cookie"):
		if ascii.EqualFold(name, "Set-Cookie") {
			return b.cookie(c, value)
		}
	}
	return value
}

// address maps the address of a page. Where the upstream has said a path, perhaps one that a client
// has put into its mouth, the client must not read the name of a server.
func (b *mapBack) address(c *call, address string) string {
	mapped, named := b.mapped(c, address)
	switch client := c.Req.Host(); {
	case named || mapped == address || !leadsAway(mapped):
		return mapped
	case client == "":
		return address
	case mapped[0] != '/':
		return placeholder.Scheme(c.Req) + "://" + client + "/" + mapped
	default:
		return placeholder.Scheme(c.Req) + "://" + client + mapped
	}
}

// leadsAway reports whether a reference that is meant to be a path has a scheme or the name of a
// server for a browser, which drops tabs and takes a backslash for a slash.
func leadsAway(reference string) bool {
	reference = strings.TrimLeft(strings.ReplaceAll(reference, "\t", ""), " ")
	slash := func(i int) bool { return reference[i] == '/' || reference[i] == '\\' }
	if len(reference) > 1 && slash(0) {
		return slash(1)
	}
	end := strings.IndexAny(reference, `:/\?#`)
	return end >= 0 && reference[end] == ':'
}

// mapped returns what address leads to, before anybody has looked at it as a browser does. named
// reports that the configuration itself names the scheme or the server. An address that is relative
// to the page stays, and so does one that names the client's own host.
func (b *mapBack) mapped(c *call, address string) (mapped string, named bool) {
	for i := range b.locations {
		p := &b.locations[i]
		if m, ok := p.match(address); ok {
			if c.Req.Host() == "" && p.needsHost() {
				return address, false
			}
			return p.expand(c.Req, c.Req.Host(), m), p.names(c.Req)
		}
	}
	if !b.usual {
		return address, false
	}
	origin, rest := splitOrigin(address)
	if origin == "" {
		if !strings.HasPrefix(rest, "/") {
			return address, false
		}
		return b.path(rest), false
	}
	scheme, authority, _ := strings.Cut(origin, "//")
	scheme = strings.TrimSuffix(scheme, ":")
	upstream := "http"
	if strings.HasPrefix(c.Up.Name(), "https://") {
		upstream = "https"
	}
	switch {
	case strings.HasPrefix(rest, `\`), !b.foreign, sameAuthority(scheme, authority, c.Req.Host()),
		!sameAuthority(scheme, authority, string(c.appendHost(nil))):
		return address, false
	case scheme != "" && !ascii.EqualFold(scheme, upstream) &&
		!ascii.EqualFold(scheme, placeholder.Scheme(c.Req)):
		return address, false // to https, say: the client would be sent around in a circle
	}
	return b.path(rest), false
}

// splitOrigin splits "http://host" or "//host" off an address. Without one, or with a user in it,
// origin is empty.
func splitOrigin(address string) (origin, rest string) {
	n := 0
	switch {
	case ascii.HasPrefixFold(address, "http://"):
		n = len("http://")
	case ascii.HasPrefixFold(address, "https://"):
		n = len("https://")
	case strings.HasPrefix(address, "//"):
		n = len("//")
	default:
		return "", address
	}
	end := strings.IndexAny(address[n:], `/\?#`)
	if end < 0 {
		end = len(address) - n
	}
	return address[:n+end], address[n+end:]
}

// sameAuthority compares a host, perhaps with a port, with another one. A port that the scheme
// implies makes no difference; without a scheme both are such ports.
func sameAuthority(scheme, a, b string) bool {
	return b != "" && ascii.EqualFold(trimPort(scheme, a), trimPort(scheme, b))
}

func trimPort(scheme, authority string) string {
	if !ascii.EqualFold(scheme, "https") {
		authority = strings.TrimSuffix(authority, ":80")
	}
	if !ascii.EqualFold(scheme, "http") {
		authority = strings.TrimSuffix(authority, ":443")
	}
	return authority
}

// path maps a path, perhaps with a query, of the upstream. One with dot segments stays: where it
// leads shows only once they are resolved.
func (b *mapBack) path(rest string) string {
	end := strings.IndexAny(rest, "?#")
	if end < 0 {
		end = len(rest)
	}
	path, behind := rest[:end], rest[end:]
	if path == "" {
		path = "/"
	}
	if !b.cut || dotted(path) {
		return path + behind
	}
	below, ok := cutFolder(path, b.to)
	if !ok {
		return path + behind // not the route's
	}
	if b.to == "" && b.prefix != "" {
		if _, ok := cutFolder(path, b.prefix); ok {
			return path + behind // the upstream knows its prefix, by X-Forwarded-Prefix
		}
	}
	if below = b.prefix + below; below == "" {
		below = "/"
	}
	return below + behind
}

// dotted reports whether a browser finds a dot segment in a path.
func dotted(path string) bool {
	path = strings.ReplaceAll(path, "\t", "")
	ends := func(r rune) bool { return r == '/' || r == '\\' }
	for segment := range strings.FieldsFuncSeq(path, ends) {
		if len(segment) > len("%2e%2e") {
			continue
		}
		segment = strings.ReplaceAll(strings.ToLower(segment), "%2e", ".")
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// cutFolder cuts a folder, which has no slash at its end, off a path.
func cutFolder(path, folder string) (below string, ok bool) {
	below, ok = strings.CutPrefix(path, folder)
	return below, ok && (below == "" || below[0] == '/')
}

// refresh maps the address in "5; url=/x", which may have quotes.
func (b *mapBack) refresh(c *call, value string) string {
	const mark = "url="
	for i := 0; i+len(mark) <= len(value); i++ {
		if !ascii.HasPrefixFold(value[i:], mark) ||
			i > 0 && strings.IndexByte("; ,\t", value[i-1]) < 0 {
			continue
		}
		before, address, after := value[:i+len(mark)], value[i+len(mark):], ""
		if address != "" && (address[0] == '"' || address[0] == '\'') {
			if end := strings.IndexByte(address[1:], address[0]); end >= 0 {
				after = address[1+end:]
				before, address = before+address[:1], address[1:1+end]
			}
		}
		return before + b.address(c, address) + after
	}
	return value
}

// link maps the addresses between angle brackets (RFC 8288 section 3).
func (b *mapBack) link(c *call, value string) string {
	var out strings.Builder
	quoted, from := false, 0
	for i := 0; i < len(value); i++ {
		switch {
		case quoted && value[i] == '\\':
			i++
		case value[i] == '"':
			quoted = !quoted
		case value[i] == '<' && !quoted:
			end := strings.IndexByte(value[i:], '>')
			if end < 0 {
				return value
			}
			out.WriteString(value[from : i+1])
			out.WriteString(b.address(c, value[i+1:i+end]))
			i += end
			from = i
		}
	}
	if from == 0 {
		return value
	}
	out.WriteString(value[from:])
	return out.String()
}

// cookie maps the attributes Path and Domain by the tables (RFC 6265 section 4.1). A cookie with
// the prefix "__Host-" has to have the path that it has.
func (b *mapBack) cookie(c *call, value string) string {
	var out strings.Builder
	changed := false
	fixed := ascii.HasPrefixFold(value, "__Host-")
	first := true
	for part := range strings.SplitSeq(value, ";") {
		attribute, text, _ := strings.Cut(part, "=")
		name, text := strings.TrimSpace(attribute), strings.TrimSpace(text)
		switch {
		case first, fixed:
		case ascii.EqualFold(name, "Path"):
			if to := b.cookiePath(c, text); to != text {
				part, changed = attribute+"="+to, true
			}
		case ascii.EqualFold(name, "Domain"):
			to := b.cookieDomain(c, text)
			if to == "" {
				changed = true
				continue
			}
			if to != text {
				part, changed = attribute+"="+to, true
			}
		}
		if !first {
			out.WriteByte(';')
		}
		first = false
		out.WriteString(part)
	}
	if !changed {
		return value
	}
	return out.String()
}

func (b *mapBack) cookiePath(c *call, path string) string {
	for i := range b.cookiePaths {
		if m, ok := b.cookiePaths[i].match(path); ok {
			return b.cookiePaths[i].expand(c.Req, "", m)
		}
	}
	return path
}

// cookieDomain returns the domain for the client, empty if the cookie is for the host that the
// client has asked for.
func (b *mapBack) cookieDomain(c *call, domain string) string {
	plain := strings.TrimPrefix(domain, ".") // which means nothing (RFC 6265 section 5.2.3)
	for i := range b.cookieDomains {
		if m, ok := b.cookieDomains[i].matchDomain(plain); ok {
			asked, _ := http1.SplitPort(c.Req.Host())
			return b.cookieDomains[i].expand(c.Req, asked, m)
		}
	}
	return domain
}
