package browsers

import (
	"slices"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
)

// Presets are the fields that security_headers sends, by its values.
var Presets = map[string][]conn.Field{
	"usual": {
		{Name: "X-Content-Type-Options", Value: "nosniff"},
		{Name: "X-Frame-Options", Value: "SAMEORIGIN"},
		{Name: "Referrer-Policy", Value: "strict-origin-when-cross-origin"},
		{Name: "Cross-Origin-Opener-Policy", Value: "same-origin-allow-popups"},
	},
	"strict": {
		{Name: "X-Content-Type-Options", Value: "nosniff"},
		{Name: "X-Frame-Options", Value: "DENY"},
		{Name: "Referrer-Policy", Value: "no-referrer"},
		{Name: "Cross-Origin-Opener-Policy", Value: "same-origin"},
		{Name: "Cross-Origin-Resource-Policy", Value: "same-origin"},
		{Name: "Permissions-Policy",
			Value: "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"},
		{Name: "Content-Security-Policy", Value: "default-src 'self'; base-uri 'self'; " +
			"form-action 'self'; frame-ancestors 'none'; object-src 'none'"},
	},
}

// NewSecurityHeaders makes the middleware that gives all answers, also errors, the fields of a
// preset. An answer that has one of them keeps its own.
func NewSecurityHeaders(preset string) handlers.Middleware {
	fields := slices.Clone(Presets[preset])
	hook := func(_ *conn.Request, resp *conn.Response, _ int) {
		h := resp.Header()
		for _, f := range fields {
			if !h.Has(f.Name) {
				h.Set(f.Name, f.Value)
			}
		}
	}
	return func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			resp.Layer().BeforeHead(hook)
			return next(req, resp)
		}
	}
}
