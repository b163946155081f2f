package servefiles

import (
	"net/url"

	"github.com/lwango/lwango/internal/http1"
)

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
