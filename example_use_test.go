package lwango_test

import (
	"log/slog"
	"time"

	"github.com/lwango/lwango"
)

// timed is middleware that logs how long requests take.
func timed(next lwango.Handler) lwango.Handler {
	return func(req *lwango.Request, resp *lwango.Response) int {
		start := time.Now()
		status := next(req, resp)
		slog.Info("answered", "target", req.Target(), "status", status, "in", time.Since(start))
		return status
	}
}

// Middleware around all that is served, by handlers of the program and by the configuration.
func ExampleUse() {
	lwango.Use(timed)
	lwango.Main()
}

// Middleware for what the configuration names:
//
//	[[site.route]]
//	prefix = "/files"
//	module = "serve_files"
//	path = "/srv/files"
//	use = ["members"]
func ExampleRegisterMiddleware() {
	lwango.RegisterMiddleware("members", func(next lwango.Handler) lwango.Handler {
		return func(req *lwango.Request, resp *lwango.Response) int {
			if _, ok := req.Cookie("member"); !ok {
				return resp.Redirect(303, "/login")
			}
			return next(req, resp)
		}
	})
	lwango.Main()
}
