package servefiles

import (
	"net/http"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/http1"
)

// RedirectToFolder leads the client to the same path with a slash at its end, and returns the
// status for the handler to return: 301, or 308 where the client is to send the method and the body
// again.
func RedirectToFolder(req *conn.Request, resp *conn.Response) int {
	resp.Header().Set("Location", folderLocation(req.Path(), req.RawQuery()))
	if method := req.Method(); method == http.MethodGet || method == http.MethodHead {
		return http.StatusMovedPermanently
	}
	return http.StatusPermanentRedirect
}

// folderLocation returns the Location for a folder whose path has no slash at its end. path is the
// whole decoded path, not the part below the route. It is escaped again, with the backslash, which
// browsers take for a slash. A cleaned path has one slash in front. So the Location is never
// "//host" or "/\host", which lead to another server.
func folderLocation(path, query string) string {
	location := string(http1.AppendPath(nil, []byte(path))) + "/"
	if query != "" {
		location += "?" + http1.EscapeQuery(query)
	}
	return location
}
