package browsers

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/wire/http1"
)

// CORS says which pages of other origins may read answers (the CORS protocol of the Fetch
// standard).
type CORS struct {
	// Origins are those of the pages: "https://app.example.org", "https://*.example.org" for all
	// hosts below a name, or "*".
	Origins []string `toml:"origins"`
	// Methods are those that such a page may use; "*": all.
	Methods []string `toml:"methods"`
	// Headers are fields that such a page may set beyond those that every page may; "*": all but
	// Authorization.
	Headers []string `toml:"headers"`
	// Expose are fields of answers that such a page may read beyond the usual ones; "*": all.
	Expose []string `toml:"expose"`
	// Credentials lets such a page send cookies and passwords along.
	Credentials bool `toml:"credentials"`
	// MaxAge is for how long a browser may keep the answer to a preflight; without it, browsers keep
	// it for 5 seconds.
	MaxAge time.Duration `toml:"max_age" min:"1s" max:"24h"`
}

// usualMethods are those of CORS without Methods.
var usualMethods = []string{http.MethodGet, http.MethodHead, http.MethodPost}

// String says in words who may read.
func (s *CORS) String() string {
	words := "pages of " + strings.Join(s.Origins, ", ")
	if s.Credentials {
		words += ", with credentials"
	}
	return words
}

// cors is a CORS made ready.
type cors struct {
	origins                                    *origins
	methods, headers, expose, age, credentials string // values of fields; "": none
}

const (
	allowOrigin      = "Access-Control-Allow-Origin"
	allowCredentials = "Access-Control-Allow-Credentials"
	exposeHeaders    = "Access-Control-Expose-Headers"
)

// NewCORS makes the middleware. Errors are *handlers.KeyError. It answers preflights itself, and
// gives all other answers their fields, also errors.
func NewCORS(s CORS) (handlers.Middleware, error) {
	c := new(cors)
	var err error
	if c.origins, err = parseOrigins(s.Origins); err != nil {
		return nil, &handlers.KeyError{Key: "origins", Err: err}
	}
	if s.Credentials {
		c.credentials = "true"
		if c.origins.all {
			return nil, handlers.BadKey("origins", `"*" beside credentials would let every page act as `+
				`the user; name the origins`)
		}
	}
	methods := s.Methods
	if methods == nil {
		methods = usualMethods
	}
	lists := []struct {
		key   string
		names []string
		valid func(string) bool
		to    *string
	}{
		{"methods", methods, validMethod, &c.methods},
		{"headers", s.Headers, http1.ValidToken[string], &c.headers},
		{"expose", s.Expose, http1.ValidToken[string], &c.expose},
	}
	for _, l := range lists {
		for _, name := range l.names {
			switch {
			case name == "*" && s.Credentials:
				return nil, handlers.BadKey(l.key,
					`browsers take "*" for a name where credentials are sent; name them`)
			case name != "*" && !l.valid(name):
				return nil, handlers.BadKey(l.key, "%q is not a name of one", name)
			}
		}
		*l.to = strings.Join(l.names, ", ")
	}
	if s.MaxAge > 0 {
		c.age = strconv.FormatInt(int64(s.MaxAge/time.Second), 10)
	}
	mark := c.mark // one value for all requests
	return func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			resp.Layer().BeforeHead(mark)
			if isPreflight(req) {
				return c.preflight(req, resp)
			}
			return next(req, resp)
		}
	}, nil
}

func validMethod(m string) bool { return http1.ValidMethod(m) && m == strings.ToUpper(m) }

// isPreflight reports whether a browser asks if a page may send another request.
func isPreflight(req *conn.Request) bool {
	if req.Method() != http.MethodOptions {
		return false
	}
	_, asks := req.Layer().HeaderView("Access-Control-Request-Method")
	_, from := req.Layer().HeaderView("Origin")
	return asks && from
}

// preflight answers a preflight. That of a page that may not gets no fields, by which the browser
// knows.
func (c *cors) preflight(req *conn.Request, resp *conn.Response) int {
	h := resp.Header()
	h.Vary("Access-Control-Request-Method", "Access-Control-Request-Headers")
	origin, _ := req.Layer().HeaderView("Origin")
	if _, ok := c.origins.has(origin); !ok {
		return http.StatusNoContent
	}
	for _, f := range [...]conn.Field{
		{Name: "Access-Control-Allow-Methods", Value: c.methods},
		{Name: "Access-Control-Allow-Headers", Value: c.headers},
		{Name: "Access-Control-Max-Age", Value: c.age},
	} {
		if f.Value != "" {
			h.Set(f.Name, f.Value)
		}
	}
	return http.StatusNoContent
}

// mark is the hook: it takes the place of what the application says of other origins. An answer
// that is the same for all origins does not vary by them.
func (c *cors) mark(req *conn.Request, resp *conn.Response, _ int) {
	h := resp.Header()
	h.Del(allowOrigin)
	h.Del(allowCredentials)
	h.Del(exposeHeaders)
	value := "*"
	if !c.origins.all {
		h.Vary("Origin")
		origin, _ := req.Layer().HeaderView("Origin")
		named, ok := c.origins.has(origin)
		if !ok {
			return
		}
		if value = named; named == "" {
			value = string(origin)
		}
	}
	h.Set(allowOrigin, value)
	if c.credentials != "" {
		h.Set(allowCredentials, c.credentials)
	}
	if c.expose != "" {
		h.Set(exposeHeaders, c.expose)
	}
}
