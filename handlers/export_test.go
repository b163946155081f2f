package handlers

import (
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Find returns what Serve would call for a host and a path, and the prefix it would set.
func (r *Router) Find(host, path []byte) (prefix string, h conn.Handler, ok bool) {
	return r.FindAt("", false, host, path)
}

// FindAt is Find for a request that came by a listener, secure or not.
func (r *Router) FindAt(listener string, secure bool, host, path []byte) (
	prefix string, h conn.Handler, ok bool) {
	table := &r.hosts.others[0]
	if r.hosts.split {
		table = r.hosts.at(listener, secure)
	}
	to := table.find(host)
	if to == nil {
		return "", nil, false
	}
	t := to.routes.find(path)
	if t == nil {
		return "", nil, false
	}
	return t.prefix, t.handler, true
}

// Look is what the patterns of m say to a request, without the request: the pattern that matches
// and the values of its wildcards, or else the status and the value of Allow.
func (m *Mux) Look(method, host, raw string) (pattern string, values map[string]string, status int,
	allow string) {
	path, err := http1.CleanPath(nil, []byte(raw))
	if err != nil {
		return "", nil, 400, ""
	}
	t := m.ready()
	split, clean := http1.SplitPath(path, []byte(raw))
	f := t.look(method, []byte(host), split, nil)
	switch {
	case f.action == addSlash, f.pattern != nil && !clean:
		return "", nil, 307, ""
	case f.pattern == nil:
		if allow = t.tree.Allowed([]byte(host), split); allow != "" {
			return "", nil, 405, allow
		}
		return "", nil, 404, ""
	}
	values = map[string]string{}
	for i, name := range f.pattern.Names {
		values[name] = strings.ReplaceAll(string(split[f.values[i][0]:f.values[i][1]]),
			http1.EncodedSlash, "/")
	}
	return f.pattern.Text, values, 200, ""
}
