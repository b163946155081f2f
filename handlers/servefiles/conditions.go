package servefiles

import "github.com/lwango/lwango/conn"

// conditional reports whether a request has any of the fields that http1.Precondition looks at.
// Most have none, and then no strings of their header section are made.
func conditional(req *conn.Request) bool {
	return has(req, "If-None-Match") || has(req, "If-Modified-Since") || has(req, "If-Match") ||
		has(req, "If-Unmodified-Since")
}

func has(req *conn.Request, name string) bool {
	_, ok := req.Layer().HeaderView(name)
	return ok
}
