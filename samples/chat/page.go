package main

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"path"
	"strings"

	"github.com/lwango/lwango"
)

//go:embed page
var files embed.FS

// types are the media types of the page's files. The system's table might have others.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// policy lets the page load what this server sends, its socket included, and nothing else. If a
// message ever became markup, it could not do anything.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

type file struct {
	body []byte
	kind string
	tag  string
}

// page serves the files of the folder page, each by its name, and index.html as the root.
func page() lwango.Handler {
	served := make(map[string]file)
	entries, _ := files.ReadDir("page") // it is embedded, and cannot fail
	for _, e := range entries {
		body, _ := files.ReadFile("page/" + e.Name())
		sum := sha256.Sum256(body)
		tag := `"` + hex.EncodeToString(sum[:8]) + `"`
		served["/"+e.Name()] = file{body, types[path.Ext(e.Name())], tag}
	}
	served["/"] = served["/index.html"]

	return func(req *lwango.Request, resp *lwango.Response) int {
		f, ok := served[req.Path()]
		if !ok {
			return 404
		}
		h := resp.Header()
		if m := req.Method(); m != "GET" && m != "HEAD" {
			h.Set("Allow", "GET, HEAD")
			return 405
		}
		h.Set("ETag", f.tag)
		h.Set("Cache-Control", "no-cache") // asked for each time: two versions do not fit together
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		// The tag of a page that was compressed is a weak one.
		if strings.TrimPrefix(req.Header().Get("If-None-Match"), "W/") == f.tag {
			return 304
		}
		h.Set("Content-Type", f.kind)
		resp.SetBody(f.body)
		return 200
	}
}
