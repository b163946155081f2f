package main

import (
	"embed"

	"github.com/lwango/lwango"
)

//go:embed page
var files embed.FS

// page serves a file of the folder page. Its policy lets it load what this server sends, and
// nothing else.
func page(name, kind string) lwango.Handler {
	body, err := files.ReadFile("page/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return func(req *lwango.Request, resp *lwango.Response) int {
		h := resp.Header()
		h.Set("Content-Type", kind)
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; "+
			"connect-src 'self'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "+
			"form-action 'self'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		resp.SetBody(body)
		return 200
	}
}
