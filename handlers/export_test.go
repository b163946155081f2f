package handlers

import "github.com/lwango/lwango/conn"

// Find returns what Serve would call for a host and a path, and the prefix it would set.
func (r *Router) Find(host, path []byte) (prefix string, h conn.Handler, ok bool) {
	to := r.hosts.find(host)
	if to == nil {
		return "", nil, false
	}
	t := to.routes.find(path)
	if t == nil {
		return "", nil, false
	}
	return t.prefix, t.handler, true
}
