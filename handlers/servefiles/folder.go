package servefiles

import (
	"net/http"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/wire/http1"
)

// RedirectToFolder leads the client to the same path with a slash at its end, and returns the
// status for the handler to return: 301, or 308 where the client is to send the method and the body
// again.
func RedirectToFolder(req *conn.Request, resp *conn.Response) int {
	resp.Header().Set("Location", folderLocation(req.Layer().SentPathView(), req.RawQuery()))
	if method := req.Method(); method == http.MethodGet || method == http.MethodHead {
		return http.StatusMovedPermanently
	}
	return http.StatusPermanentRedirect
}

// folderLocation returns the Location for a folder whose path has no slash at its end. path is the
// whole path as the client has sent it, in the form of conn.RequestLayer.SentPathView, not the part
// below the route: in that form it has one slash in front, and no backslash, which browsers take
// for a slash. So the Location is never "//host" or "/\host", which lead to another server.
func folderLocation(path []byte, query string) string {
	location := string(http1.AppendMerged(nil, path)) + "/"
	if query != "" {
		location += "?" + http1.EscapeQuery(query)
	}
	return location
}
