package handlers

import "github.com/lwango/lwango/conn"

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
