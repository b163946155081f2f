// Package response is the module `response`: a route that always gets the same answer, fixed in the configuration.
package response

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/http1"
)

// Settings are the module's keys.
type Settings struct {
	Status  int               `toml:"status"`
	Headers map[string]string `toml:"headers"`
	Body    string            `toml:"body"`
}

// Register puts the module into r.
func Register(r *handlers.Registry) {
	handlers.RegisterModule(r, "response", Settings{Status: http.StatusOK}, New)
}

// field is one header field of the answer. Fields are a sorted list and not a map, so that every answer has them in the same order.
type field struct{ name, value string }

// New makes the handler. Errors are *handlers.KeyError. The handler may run on any number of loops at once.
func New(s Settings, _ handlers.Env) (conn.Handler, error) {
	if s.Status < 200 || s.Status > 599 {
		return nil, handlers.BadKey("status", "expected a final status, 200 to 599, not %d", s.Status)
	}
	if s.Body != "" && (s.Status == http.StatusNoContent || s.Status == http.StatusNotModified) {
		return nil, handlers.BadKey("body", "an answer with status %d has none", s.Status)
	}
	fields, err := checkFields(s.Headers)
	if err != nil {
		return nil, &handlers.KeyError{Key: "headers", Err: err}
	}
	if s.Body != "" && !slices.ContainsFunc(fields, func(f field) bool { return ascii.EqualFold(f.name, "Content-Type") }) {
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

// checkFields finds at the start what would otherwise be a 500 for every request. Fields that frame the message or speak about the
// connection are the server's: set from outside, they would contradict what is really sent.
func checkFields(headers map[string]string) ([]field, error) {
	var fields []field
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		if !http1.ValidToken(name) {
			return nil, fmt.Errorf("%q is not a field name", name)
		}
		switch strings.ToLower(name) {
		case "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "trailer", "date":
			return nil, fmt.Errorf("%s is set by the server itself", name)
		}
		if !http1.ValidFieldValue(value) {
			return nil, fmt.Errorf("%s: a value has no control characters", name)
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
