package servefiles

import (
	"bytes"
	"net/url"

	"github.com/lwango/lwango/internal/http1"
)

// hidden reports whether a cleaned path below the route names something that is not for the public: a segment that begins with a dot, be
// it a file or a folder on the way to one (.git, .env, .htpasswd). /.well-known/ is the one folder of that kind that is meant to be
// served (RFC 8615), at the top only; what lies hidden within it stays hidden.
func hidden(path []byte) bool {
	if after, ok := bytes.CutPrefix(path, wellKnown); ok && (len(after) == 0 || after[0] == '/') {
		path = after
	}
	return bytes.Contains(path, hiddenSegment)
}

var (
	wellKnown     = []byte("/.well-known")
	hiddenSegment = []byte("/.")
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
