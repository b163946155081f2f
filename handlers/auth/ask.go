package auth

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/around"
	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/http1"
)

// asker lets a route of the site say who may pass.
type asker struct {
	path   string
	copied []string // names of the answer's fields that go into the request
	routes *handlers.SiteRoutes
	log    *slog.Logger
}

// Fields that tell the route of the client's request.
const (
	originalMethod = "X-Original-Method"
	originalURI    = "X-Original-URI"
	originalHost   = "X-Original-Host"
)

// newAsker checks the settings.
func newAsker(s Settings, env handlers.Env) (*asker, error) {
	switch {
	case s.Htpasswd != "":
		return nil, handlers.BadKey("request", "is in place of htpasswd; expected one of them")
	case s.Realm != "":
		return nil, handlers.BadKey("realm", "is for htpasswd; with request, the route names it")
	}
	path, err := http1.CleanPath(nil, []byte(s.Request))
	if err != nil || string(path) != s.Request || strings.ContainsAny(s.Request, "?#") {
		return nil, handlers.BadKey("request",
			"expected the path of a route, such as \"/auth-check\", not %q", s.Request)
	}
	routes := around.Of(env).Routes
	if _, ok := routes.Of(s.Request); !ok {
		return nil, handlers.BadKey("request", "the site has no route for %s", s.Request)
	}
	for _, name := range s.CopyHeaders {
		if err := handlers.CheckField(name); err != nil {
			return nil, handlers.BadKey("copy_headers", "%s: %w", name, err)
		}
		if reason := unfit(name); reason != "" {
			return nil, handlers.BadKey("copy_headers", "%s %s", name, reason)
		}
	}
	return &asker{path: s.Request, copied: s.CopyHeaders, routes: routes, log: env.Log()}, nil
}

// unfit returns why a field cannot be copied, "" if it can: what a module would silently leave out
// is no way to tell an application who the user is.
func unfit(name string) string {
	is := func(s string) bool { return ascii.EqualFold(name, s) }
	switch {
	case ascii.HasPrefixFold(name, "Proxy"):
		return "is not passed on, as all fields whose names begin with Proxy"
	case strings.Contains(name, "_"):
		return "is not passed on, as other fields with an underscore; expected a hyphen"
	case is("Host"), is("Expect"), is("TE"):
		return "is about the message itself"
	case slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Proto",
		"X-Forwarded-Host", "Via"}, is):
		return "tells an application of the client's connection, not of the user"
	}
	return ""
}

func (a *asker) around(next conn.Handler) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		if status := a.check(req, resp); status != 0 {
			return status
		}
		return next(req, resp)
	}
}

// check asks the route, and returns 0 if the request may pass, else the status of the answer to it.
// It waits for the route.
func (a *asker) check(req *conn.Request, resp *conn.Response) (status int) {
	if a.takesBack(req) {
		return http.StatusBadRequest
	}
	method, target, host := req.Method(), req.Target(), req.Host()
	status, header, err := req.Ask(a.path, func(sub *conn.Request, resp *conn.Response) int {
		for _, name := range a.copied {
			sub.Layer().ReplaceHeader(name)
		}
		sub.Layer().ReplaceHeader(originalMethod, method)
		sub.Layer().ReplaceHeader(originalURI, target)
		sub.Layer().ReplaceHeader(originalHost, host)
		return a.routes.Serve(sub, resp)
	})
	switch {
	case err == nil && status >= 200 && status <= 299:
		for _, name := range a.copied {
			req.Layer().ReplaceHeader(name, header.Values(name)...)
		}
		return 0
	case err == nil && (status == http.StatusUnauthorized || status == http.StatusForbidden):
		for _, name := range []string{"WWW-Authenticate", "Set-Cookie"} {
			for _, value := range header.Values(name) {
				resp.Header().Add(name, value)
			}
		}
		return status
	case req.Gone(): // which ends the waits of the route, too
	case err == nil:
		a.log.Error("auth: the answer of the route that is asked is neither 2xx nor 401 nor 403",
			"route", a.path, "status", status, "request_id", req.ID(), "target", target)
	default:
		a.log.Error("auth: the route that is asked does not answer", "route", a.path, "error", err,
			"request_id", req.ID(), "target", target)
	}
	return http.StatusInternalServerError
}

// takesBack reports whether the field Connection names one of those that the route's answer gives
// the request. A module that passes the request on would remove that field, so a client could take
// back what the route says of it (RFC 9110 section 7.6.1). For fastcgi "Remote_User" names it, too.
func (a *asker) takesBack(req *conn.Request) (found bool) {
	list, next := req.Layer().HeaderViewFrom("Connection", 0)
	for ; next > 0 && !found; list, next = req.Layer().HeaderViewFrom("Connection", next) {
		ascii.EachElement(list, func(option []byte) bool {
			found = slices.ContainsFunc(a.copied,
				func(name string) bool { return http1.SameVariable(name, option) })
			return !found
		})
	}
	return found
}
