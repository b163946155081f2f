package browsers

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/internal/base/ascii"
)

// CSRF are exceptions from the refusal of requests that pages of other origins have caused.
type CSRF struct {
	// Trusted are origins whose pages may: "https://app.example.org", or "https://*.example.org" for
	// all hosts below a name.
	Trusted []string `toml:"trusted"`
	// Bypass are patterns of paths that may be asked for from anywhere.
	Bypass []string `toml:"bypass"`
}

// String says in words what is refused.
func (s *CSRF) String() string {
	words := "refuses with 403 what pages of other origins cause, but GET, HEAD and OPTIONS"
	if len(s.Trusted) > 0 {
		words += "; not of " + strings.Join(s.Trusted, ", ")
	}
	if len(s.Bypass) > 0 {
		words += "; not for " + strings.Join(s.Bypass, ", ")
	}
	return words
}

// csrf is a CSRF made ready.
type csrf struct {
	trusted *origins     // nil: none
	checked *rules.Match // of requests that no pattern of bypass is for; nil: all are checked
}

// NewCSRF makes the middleware. Errors are *handlers.KeyError. It refuses with 403 what the
// CrossOriginProtection of net/http refuses.
func NewCSRF(s CSRF) (handlers.Middleware, error) {
	c := new(csrf)
	if s.Trusted != nil {
		var err error
		if c.trusted, err = parseOrigins(s.Trusted); err != nil {
			return nil, &handlers.KeyError{Key: "trusted", Err: err}
		}
		if c.trusted.all {
			return nil, handlers.BadKey("trusted", `"*" would be no protection; leave the key csrf out`)
		}
	}
	if s.Bypass != nil {
		// A request is checked if, in any reading of its path, no pattern is for it.
		m, err := rules.When{Not: rules.Conditions{Path: s.Bypass}}.Compile()
		if err != nil {
			return nil, handlers.BadKey("bypass", "%v", causeOf(err))
		}
		c.checked = m
	}
	return func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			if c.foreign(req) {
				return http.StatusForbidden
			}
			return next(req, resp)
		}
	}, nil
}

// foreign reports whether a page of another origin has caused a request that may change something.
// Browsers say so in Sec-Fetch-Site, which no page can set. Those that do not yet, and those that
// speak http, send Origin with such requests; its host is compared with the one that the request is
// for. What has neither field comes from no browser, which could be deceived.
func (c *csrf) foreign(req *conn.Request) bool {
	switch req.Method() {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	q := req.Layer()
	site, _ := q.HeaderView("Sec-Fetch-Site")
	origin, _ := q.HeaderView("Origin")
	switch string(site) {
	case "same-origin", "none":
		return false
	case "":
		_, host, ok := bytes.Cut(origin, []byte("://"))
		if len(origin) == 0 || ok && ascii.EqualFold(host, q.HostView()) {
			return false
		}
	}
	if c.trusted != nil {
		if _, ok := c.trusted.has(origin); ok {
			return false
		}
	}
	return c.checked == nil || c.checked.Holds(q)
}
