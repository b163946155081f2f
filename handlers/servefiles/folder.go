package servefiles

import (
	"net/http"
	"net/url"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/http1"
)

// RedirectToFolder leads the client to the same path with a slash at its end, and returns the status
// for the handler to return: 301, or 308 where the client is to send the method and the body again.
func RedirectToFolder(req *conn.Request, resp *conn.Response) int {
	resp.Header().Set("Location", folderLocation(req.Path(), req.RawQuery()))
	if method := req.Method(); method == http.MethodGet || method == http.MethodHead {
		return http.StatusMovedPermanently
	}
	return http.StatusPermanentRedirect
}

// folderLocation is the Location of a folder that was asked for without a slash at its end. path is the whole decoded path, not only
// what is below the route. It is escaped again, a backslash too, which browsers take for a slash: together with the cleaning of paths,
// which leaves one slash in front, that keeps "//host" and "/\host" out, which would lead to another server.
func folderLocation(path, query string) string {
	location := (&url.URL{Path: path}).EscapedPath() + "/"
	if query != "" {
		location += "?" + http1.EscapeQuery(query)
	}
	return location
}
