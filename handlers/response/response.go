// Package response is the module `response`: a route that always gets the same answer, fixed in the
// configuration.
//
//	[[site.route]]
//	prefix = "/robots.txt"
//	module = "response"
//	body = "User-agent: *\nDisallow: /private/\n"
package response

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/tags"
)

// Settings are the module's keys.
type Settings struct {
	Status  int               `toml:"status" default:"200"`
	Headers map[string]string `toml:"headers"`
	Body    string            `toml:"body"`
}

// Register puts the module into r.
func Register(r *handlers.Registry) {
	handlers.RegisterModule(r, "response", tags.Defaults[Settings](), New, handlers.Uncached)
}

// field is one header field of the answer. Fields are a sorted list and not a map, so that every
// answer has them in the same order.
type field struct{ name, value string }

// New makes the handler. Errors are *handlers.KeyError. The handler may run on any number of loops
// at once.
func New(s Settings, _ handlers.Env) (conn.Handler, error) {
	if s.Status < 200 || s.Status > 599 {
		return nil, handlers.BadKey("status", "expected a final status, 200 to 599, not %d",
			s.Status)
	}
	if s.Body != "" && (s.Status == http.StatusNoContent || s.Status == http.StatusNotModified) {
		return nil, handlers.BadKey("body", "an answer with status %d has none", s.Status)
	}
	fields, err := checkFields(s.Headers)
	if err != nil {
		return nil, &handlers.KeyError{Key: "headers", Err: err}
	}
	isType := func(f field) bool { return ascii.EqualFold(f.name, "Content-Type") }
	if s.Body != "" && !slices.ContainsFunc(fields, isType) {
		fields = append(fields, field{"Content-Type", "text/plain; charset=utf-8"})
	}
	body := []byte(s.Body)
	return func(req *conn.Request, resp *conn.Response) int {
		for _, f := range fields {
			resp.Header().Set(f.name, f.value)
		}
		if len(body) > 0 {
			resp.SetBody(body)
		}
		return s.Status
	}, nil
}

// checkFields returns the fields sorted by name.
func checkFields(headers map[string]string) ([]field, error) {
	var fields []field
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		if err := handlers.CheckField(name, value); err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		for _, f := range fields {
			if ascii.EqualFold(f.name, name) {
				return nil, errors.New(f.name + " and " + name + " are the same field")
			}
		}
		fields = append(fields, field{name, value})
	}
	return fields, nil
}
