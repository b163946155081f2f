package config

import (
	_ "embed"

	"github.com/lwango/lwango/conn"
)

//go:embed welcome.html
var welcomePage []byte

// welcome answers for a server that has nothing to serve. With an empty 404, a first-time user
// could not tell whether the server, the file or the path is at fault.
func welcome(req *conn.Request, resp *conn.Response) int {
	if m := req.Method(); m != "GET" && m != "HEAD" {
		resp.Header().Set("Allow", "GET, HEAD")
		return 405
	}
	if req.Path() != "/" {
		return 404
	}
	resp.Header().Set("Content-Type", "text/html; charset=utf-8")
	// the page is gone as soon as there is a configuration
	resp.Header().Set("Cache-Control", "no-store")
	resp.SetBody(welcomePage)
	return 200
}
