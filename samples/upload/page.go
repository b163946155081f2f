package main

import (
	"embed"
	"fmt"

	"github.com/lwango/lwango"
)

// amount is a size as a person reads it, in powers of 1000, as on the page.
func amount(bytes int64) string {
	units, n := []string{"bytes", "kB", "MB", "GB", "TB"}, float64(bytes)
	for n >= 999.5 && len(units) > 1 {
		n, units = n/1000, units[1:]
	}
	digits := 0
	if len(units) < 4 && n < 99.95 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %s", digits, n, units[0])
}

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
