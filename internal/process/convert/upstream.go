package convert

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// group is an upstream block of nginx.
type group struct {
	at     *directive
	name   string
	tables map[string]*table // by module and scheme, as far as routes use the group
}

func (c *converter) collectUpstreams(block []*directive, into map[string]*group) {
	for _, d := range block {
		if d.name == "upstream" {
			d.done = true
			into[d.arg(0)] = &group{at: d, name: d.arg(0), tables: map[string]*table{}}
		}
	}
}

// askedAt gives a route what a pass names: a group, which it returns, or an address.
func (c *converter) askedAt(r *route, host, module, scheme, port string) *group {
	g := c.groups[host]
	if g != nil {
		r.set("upstream", c.use(g, module, scheme, port))
	} else {
		r.set("address", c.address(host, scheme, port))
	}
	return g
}

// use returns the name of the [[upstream]] that has the addresses of a group, with a scheme in
// front of each, for routes of a module.
func (c *converter) use(g *group, module, scheme, port string) string {
	key := module + " " + scheme
	if t := g.tables[key]; t != nil {
		name, _ := t.get("name").(string)
		return name
	}
	t := new(table)
	g.tables[key] = t
	name := g.name
	if len(g.tables) > 1 {
		name += "-" + module + strings.TrimSuffix(scheme, "://")
	}
	t.set("name", name)
	c.at(t, func() { c.upstream(t, g.at, scheme, port) })
	c.out.upstreams = append(c.out.upstreams, t)
	return name
}

func (c *converter) upstream(t *table, at *directive, scheme, port string) {
	var addresses []string
	t.set("address", addresses)
	for _, d := range at.block {
		d.done = true
		switch d.name {
		case "server":
			if a := c.member(t, d, scheme, port); a != "" {
				addresses = append(addresses, a)
			}
		case "least_conn", "ip_hash", "random":
			t.set("balance", d.name)
		case "hash":
			key, err := c.text(c.http, d.arg(0), nil)
			if err != nil {
				c.left(d, err.Error())
				continue
			}
			t.set("balance", "hash")
			t.set("hash", key)
			if d.arg(1) != "consistent" {
				c.say(d, differs, "keys lead to addresses as with `consistent`")
			}
		case "sticky":
			if d.arg(0) != "cookie" || d.arg(1) == "" {
				c.left(d, "sticky has a cookie alone")
				continue
			}
			sticky := t.sub("sticky")
			sticky.set("name", d.arg(1))
			for _, a := range d.rest(2) {
				key, value, _ := strings.Cut(a, "=")
				switch key {
				case "expires":
					sticky.set("expires", c.duration(d, value))
				case "domain", "path":
					sticky.set(key, value)
				}
			}
		case "zone", "keepalive", "keepalive_requests", "keepalive_timeout", "keepalive_time":
			c.say(d, byItself, "connections that are in use are kept: max_idle, idle_timeout")
		default:
			c.left(d, "an upstream has no such key; see health, circuit, retry")
		}
	}
	t.set("address", addresses)
	if len(addresses) == 0 {
		c.left(at, "no address is left")
		t.set("address", []string{scheme + "127.0.0.1:9"})
	}
}

// member returns an address of an upstream as the server writes it.
func (c *converter) member(t *table, d *directive, scheme, port string) string {
	address := c.address(d.arg(0), scheme, port)
	for _, a := range d.rest(1) {
		key, value, _ := strings.Cut(a, "=")
		switch key {
		case "weight", "max_conns":
			address += " " + key + "=" + value
		case "max_fails":
			if value == "0" {
				value = "-1"
			}
			address += " " + key + "=" + value
		case "backup":
			address += " backup"
		case "fail_timeout", "slow_start":
			if dur := c.duration(d, value); dur != "0s" && dur != "" {
				t.set(key, dur)
			}
		case "down":
			c.say(d, differs, "the address is left out, as it is down")
			return ""
		case "service":
			host, _, _ := strings.Cut(address, ":")
			address = scheme + "_" + value + "._tcp." + strings.TrimPrefix(host, scheme)
		case "resolve":
			c.say(d, byItself, "names are looked up again when their time is over")
		default:
			c.left(d, "an address has no "+key)
		}
	}
	return address
}

// address writes host:port, with a port, or unix:/path.
func (c *converter) address(a, scheme, port string) string {
	if path, ok := strings.CutPrefix(a, "unix:"); ok {
		return scheme + "unix:" + strings.TrimSuffix(path, ":")
	}
	if _, _, err := net.SplitHostPort(a); err != nil && port != "" {
		a = net.JoinHostPort(strings.Trim(a, "[]"), port)
	}
	return scheme + a
}

// units of nginx's times, as the server writes them.
var units = []struct {
	suffix string
	ms     float64
}{{"ms", 1}, {"y", 365 * 86400e3}, {"M", 30 * 86400e3}, {"w", 7 * 86400e3}, {"d", 86400e3},
	{"h", 3600e3}, {"m", 60e3}, {"s", 1e3}, {"", 1e3}}

// milliseconds reads a time of nginx, such as "1h30m" or "60".
func milliseconds(text string) (ms float64, ok bool) {
	if text == "" {
		return 0, false
	}
	for rest := text; rest != ""; {
		i := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
		if i < 0 {
			i = len(rest)
		}
		n, err := strconv.ParseFloat(rest[:i], 64)
		if err != nil {
			return 0, false
		}
		rest = strings.TrimPrefix(rest[i:], " ")
		at := slices.IndexFunc(units, func(u struct {
			suffix string
			ms     float64
		}) bool {
			return strings.HasPrefix(rest, u.suffix)
		})
		ms += n * units[at].ms
		next := strings.TrimPrefix(rest[len(units[at].suffix):], " ")
		if next == rest && next != "" {
			return 0, false
		}
		rest = next
	}
	return ms, true
}

// duration writes a time of nginx as a duration.
func (c *converter) duration(d *directive, text string) string {
	ms, ok := milliseconds(text)
	if !ok {
		c.left(d, "expected a time, found "+strconv.Quote(text))
		return ""
	}
	return writeDuration(int64(ms))
}

func writeDuration(ms int64) string {
	for _, u := range []struct {
		suffix string
		ms     int64
	}{{"h", 3600e3}, {"m", 60e3}, {"s", 1e3}} {
		if ms != 0 && ms%u.ms == 0 {
			return strconv.FormatInt(ms/u.ms, 10) + u.suffix
		}
	}
	if ms == 0 {
		return "0s"
	}
	return strconv.FormatInt(ms, 10) + "ms"
}

// size writes a size of nginx, such as 8k, as the server does; bytes is its value.
func (c *converter) size(d *directive, text string) (size string, bytes int64) {
	for _, u := range []struct {
		suffix, unit string
		bytes        int64
	}{{"k", "KiB", 1 << 10}, {"m", "MiB", 1 << 20}, {"g", "GiB", 1 << 30}, {"", "B", 1}} {
		if number, ok := strings.CutSuffix(strings.ToLower(text), u.suffix); ok {
			n, err := strconv.ParseInt(number, 10, 40)
			if err != nil {
				break
			}
			return number + u.unit, n * u.bytes
		}
	}
	c.left(d, "expected a size, found "+strconv.Quote(text))
	return "", 0
}
