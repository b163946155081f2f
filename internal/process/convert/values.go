package convert

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// wholePath is the path of a request, whatever the prefix of its route.
const wholePath = "{prefix}{path}"

// variables are those that have a placeholder of the same meaning.
var variables = map[string]string{
	"host": "{host}", "http_host": "{host}", "scheme": "{scheme}", "request_uri": "{uri}",
	"uri": wholePath, "document_uri": wholePath, "remote_addr": "{address}",
	"binary_remote_addr": "{address}", "proxy_protocol_addr": "{address}",
	"realip_remote_addr": "{address}", "remote_user": "{user}", "request_method": "{method}",
	"server_port": "{port}", "request_id": "{id}", "ssl_client_verify": "{cert_verify}",
	"ssl_client_s_dn": "{cert_subject}", "ssl_client_i_dn": "{cert_issuer}",
	"ssl_client_serial": "{cert_serial}", "dollar": "$",
}

// families are variables that name a field, a cookie, a parameter.
var families = []struct{ prefix, placeholder string }{
	{"http_", "field"}, {"cookie_", "cookie"}, {"arg_", "query"},
}

var variable = regexp.MustCompile(`\$(\w+|\{\w+\})`)

// names returns the variables of a text, without their dollars.
func names(text string) (all []string) {
	for _, m := range variable.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.Trim(m[1], "{}"))
	}
	return all
}

// queries are ways in which nginx's variables write a query with its question mark, or its & where
// another parameter stands in front.
var queries = strings.NewReplacer("$is_args$args", "{query}", "$is_args$query_string", "{query}",
	"${is_args}${args}", "{query}", "?$args", "{query}", "?$query_string", "{query}",
	"&$args", "{query}", "&$query_string", "{query}")

var placeholderLike = regexp.MustCompile(`\{\w+(\.[\w-]+)?\}`)

// text returns a text of nginx with placeholders for its variables. groups are those of an
// expression whose matches may stand in it. Where {path} does not mean all of the path, as in
// front, path is what stands for $uri.
func (c *converter) text(s *scope, text string, groups []string) (string, error) {
	if found := placeholderLike.FindString(text); found != "" && !strings.Contains(text, "$"+found) {
		return "", fmt.Errorf("%s would be a placeholder in a text", found)
	}
	var err error
	length := 0
	out := variable.ReplaceAllStringFunc(queries.Replace(text), func(v string) string {
		if err != nil {
			return ""
		}
		var value string
		value, err = c.variable(s, strings.Trim(v[1:], "{}"), groups)
		if length += len(value); length > maxLength {
			err = errors.New("its value is too long")
		}
		return value
	})
	return out, err
}

// maxSets bounds variables that are set to others, and maxLength what becomes of a text, in bytes.
const (
	maxSets   = 8
	maxLength = 64 << 10
)

// variable returns what stands for one variable.
func (c *converter) variable(s *scope, name string, groups []string) (string, error) {
	if slices.Contains(groups, name) {
		return "{" + name + "}", nil
	}
	if value, ok := s.constant(name); ok {
		if slices.Contains(c.sets, name) || len(c.sets) > maxSets {
			return "", fmt.Errorf("$%s is set to itself", name)
		}
		c.sets = append(c.sets, name)
		value, err := c.text(s, value, groups)
		c.sets = c.sets[:len(c.sets)-1]
		return value, err
	}
	if m := c.maps[name]; m != nil {
		m.used = true
		return "{" + m.name + "}", nil
	}
	if p, ok := variables[name]; ok {
		if p == wholePath && c.prefix != "" {
			p = strings.TrimSuffix(c.prefix, "/") + "/{rest}" // which begins with a slash, as addresses must
		}
		return p, nil
	}
	switch name {
	case "server_name":
		if n := s.serverName(); n != "" {
			return n, nil
		}
		return "{host}", nil
	case "document_root", "realpath_root":
		if root := s.value("root"); root != "" && !strings.Contains(root, "$") {
			return c.prefixPath(root), nil
		}
	}
	for _, f := range families {
		of, ok := strings.CutPrefix(name, f.prefix)
		switch {
		case !ok || of == "":
		case f.placeholder == "field":
			return "{field." + fieldName(of) + "}", nil
		default:
			return "{" + f.placeholder + "." + of + "}", nil
		}
	}
	return "", fmt.Errorf("there is no placeholder for $%s", name)
}

// fieldName returns the usual spelling of a field whose variable has small letters: x_real_ip is
// X-Real-Ip.
func fieldName(of string) string {
	parts := strings.Split(of, "_")
	for i, p := range parts {
		if p != "" {
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "-")
}

// constant returns the value of a variable that is set once, and not under a condition.
func (s *scope) constant(name string) (value string, ok bool) {
	for ; s != nil; s = s.outer {
		var found *directive
		for _, d := range s.own("set") {
			if strings.TrimPrefix(d.arg(0), "$") == name {
				if found != nil {
					return "", false
				}
				found = d
			}
		}
		for _, d := range s.own("if") {
			for _, in := range d.block {
				if in.name == "set" && strings.TrimPrefix(in.arg(0), "$") == name {
					return "", false
				}
			}
		}
		if found != nil {
			found.done = true
			return found.arg(1), true
		}
	}
	return "", false
}

// serverName returns the first plain name of the server.
func (s *scope) serverName() string {
	for ; s != nil; s = s.outer {
		for _, d := range s.own("server_name") {
			for _, n := range d.args {
				if n != "_" && !strings.ContainsAny(n, "*~$") && !strings.HasPrefix(n, ".") {
					return n
				}
			}
		}
	}
	return ""
}

// valueMap is a map, geo or split_clients of nginx, by the name of its variable.
type valueMap struct {
	at   *directive
	name string
	used bool // by a text

	upgrade bool // it is the usual one for WebSockets, which the server does without
}

// collectMaps notes the maps of a block, before any text may use them.
func (c *converter) collectMaps(block []*directive) {
	for _, d := range block {
		var name string
		switch {
		case d.name == "map" && len(d.args) == 2, d.name == "split_clients" && len(d.args) == 2,
			d.name == "geo" && len(d.args) == 2:
			name = d.arg(1)
		case d.name == "geo" && len(d.args) == 1:
			name = d.arg(0)
		default:
			continue
		}
		d.done = true
		name = strings.TrimPrefix(name, "$")
		m := &valueMap{at: d, name: name}
		m.upgrade = d.name == "map" && strings.EqualFold(d.arg(0), "$http_upgrade")
		if _, known := variables[name]; known || slices.Contains(taken, name) {
			m.name = name + "_map"
		}
		c.maps[name] = m
		c.mapOrder = append(c.mapOrder, m)
	}
}

// taken are names of placeholders that a map may not have.
var taken = []string{"uri", "query", "path", "rest", "prefix", "host", "port", "scheme", "method",
	"address", "id", "user", "remote", "time", "status", "bytes", "target", "proto", "referer",
	"user_agent", "close", "request", "duration", "upstream", "cache", "url"}

// writeMaps makes tables of the maps that texts use. A map may use others, so it goes on until no
// further one is needed.
func (c *converter) writeMaps() {
	for again := true; again; {
		again = false
		for _, m := range c.mapOrder {
			if m.used && c.mapTables[m] == nil {
				c.mapTables[m] = c.mapTable(m)
				again = true
			}
		}
	}
	for _, m := range c.mapOrder {
		switch {
		case m.used:
			c.out.maps = append(c.out.maps, c.mapTables[m])
		case m.upgrade:
			c.say(m.at, byItself, "the module proxy passes upgrades on")
			entriesDone(m.at)
		default:
			if !c.readInConditions[m] {
				c.say(m.at, byItself, "nothing that was carried over uses the variable")
			}
			entriesDone(m.at)
		}
	}
}

// entriesDone marks the entries of a map, which are no directives.
func entriesDone(d *directive) {
	for _, e := range d.block {
		e.done = true
	}
}

func (c *converter) mapTable(m *valueMap) *table {
	t := new(table)
	c.at(t, func() {
		t.set("name", m.name)
		switch m.at.name {
		case "geo":
			c.geo(t, m)
		case "split_clients":
			c.split(t, m)
		default:
			c.textMap(t, m)
		}
	})
	return t
}

func (c *converter) textMap(t *table, m *valueMap) {
	from, err := c.text(c.http, m.at.arg(0), nil)
	if err != nil {
		c.left(m.at, err.Error())
		from = "{host}"
	}
	t.set("from", from)
	values, hostnames := new(table), false
	var expressions []*table
	for _, d := range m.at.block {
		hostnames = hostnames || d.name == "hostnames"
	}
	for _, d := range m.at.block {
		d.done = true
		switch key := d.name; {
		case key == "hostnames" || key == "volatile":
		case key == "include":
			c.left(d, "write the entries of the file into values")
		case len(d.args) != 1:
			c.left(d, "expected a value")
		case key == "default":
			c.mapValue(t, "default", d, nil)
		case strings.HasPrefix(key, "~"):
			key, folds := strings.CutPrefix(key[1:], "*")
			re, err := expression(key, folds)
			if err != nil {
				c.left(d, err.Error())
				continue
			}
			e := new(table)
			e.set("regexp", re)
			if c.mapValue(e, "value", d, groupsOf(re)) {
				expressions = append(expressions, e)
			}
		case hostnames && strings.HasPrefix(key, "."):
			c.mapValue(values, key[1:], d, nil)
			c.mapValue(values, "*"+key, d, nil)
		case !hostnames && strings.Contains(key, "*"):
			e := new(table)
			e.set("regexp", "^"+regexp.QuoteMeta(key)+"$")
			if c.mapValue(e, "value", d, nil) {
				expressions = append(expressions, e)
			}
		default:
			c.mapValue(values, strings.TrimPrefix(key, `\`), d, nil)
		}
	}
	if !values.empty() {
		t.set("values", values)
	}
	if len(expressions) > 0 {
		t.set("regexps", expressions)
	}
	if values.empty() && len(expressions) == 0 {
		t.set("values", values)
	}
}

// mapValue sets a key to the value of an entry.
func (c *converter) mapValue(t *table, key string, d *directive, groups []string) bool {
	d.done = true
	value, err := c.text(c.http, d.arg(0), groups)
	if err != nil {
		c.left(d, err.Error())
		return false
	}
	t.set(key, value)
	return true
}

// groupsOf returns the names of the groups of an expression: their numbers, and their own names.
func groupsOf(re string) (all []string) {
	compiled, err := regexp.Compile(re)
	if err != nil {
		return nil
	}
	for i, name := range compiled.SubexpNames() {
		if i > 0 {
			all = append(all, strconv.Itoa(i))
		}
		if name != "" {
			all = append(all, name)
		}
	}
	return all
}

func (c *converter) geo(t *table, m *valueMap) {
	if len(m.at.args) == 2 {
		from, err := c.text(c.http, m.at.arg(0), nil)
		if err != nil {
			c.left(m.at, err.Error())
		} else {
			t.set("from", from)
		}
	}
	networks := new(table)
	for _, d := range m.at.block {
		d.done = true
		switch {
		case d.name == "default":
			c.mapValue(t, "default", d, nil)
		case d.name == "ranges" || d.name == "proxy" || d.name == "proxy_recursive" ||
			d.name == "delete" || d.name == "include":
			c.left(d, "networks alone, and trusted_proxies of the listener")
		case !isNetwork(d.name):
			c.left(d, "expected a network")
		default:
			c.mapValue(networks, d.name, d, nil)
		}
	}
	t.set("networks", networks)
}

func isNetwork(text string) bool {
	if _, err := netip.ParsePrefix(text); err == nil {
		return true
	}
	_, err := netip.ParseAddr(text)
	return err == nil
}

func (c *converter) split(t *table, m *valueMap) {
	from, err := c.text(c.http, m.at.arg(0), nil)
	if err != nil {
		c.left(m.at, err.Error())
	} else {
		t.set("from", from)
	}
	parts := new(table)
	for _, d := range m.at.block {
		d.done = true
		percent, err := strconv.ParseFloat(strings.TrimSuffix(d.name, "%"), 64)
		switch {
		case d.name == "*":
			c.mapValue(t, "default", d, nil)
		case err != nil || percent <= 0 || percent > 100:
			c.left(d, "expected a percentage")
		case strings.Contains(d.arg(0), "$"):
			c.left(d, "a part has a fixed value")
		default:
			was, _ := parts.get(d.arg(0)).(float64)
			parts.set(d.arg(0), was+percent)
		}
	}
	t.set("split", parts)
}
