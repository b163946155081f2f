// Package response is the module `response`: a route that always gets the same answer, fixed in the
// configuration.
//
//	[[site.route]]
//	prefix = "/robots.txt"
//	module = "response"
//	body = "User-agent: *\nDisallow: /private/\n"
package response

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/placeholder"
)

// Settings are the module's keys.
type Settings struct {
	// Status is that of the answer; 444 closes the connection without one.
	Status int `toml:"status" default:"200"`
	// Headers are fields of the answer, with placeholders.
	Headers map[string]string `toml:"headers"`
	// Body is the body, with placeholders.
	Body string `toml:"body"`
}

// Register puts the module into r.
func Register(r *handlers.Registry) {
	handlers.RegisterModule(r, "response", tags.Defaults[Settings](), New, handlers.Uncached)
}

// field is one header field of the answer. Fields are a sorted list and not a map, so that every
// answer has them in the same order.
type field struct {
	name  string
	value text
}

// text is a value or the body.
type text struct {
	literal string
	parts   placeholder.Text // nil: literal is all
	escape  func(string) string
}

// New makes the handler. Errors are *handlers.KeyError. The handler may run on any number of loops
// at once.
func New(s Settings, env handlers.Env) (conn.Handler, error) {
	if s.Status < 200 || s.Status > 599 {
		return nil, handlers.BadKey("status", "expected a final status, 200 to 599, not %d",
			s.Status)
	}
	switch s.Status {
	case http.StatusNoContent, http.StatusNotModified, conn.StatusNoAnswer:
		if s.Body != "" {
			return nil, handlers.BadKey("body", "an answer with status %d has none", s.Status)
		}
	}
	if s.Status == conn.StatusNoAnswer {
		if len(s.Headers) > 0 {
			return nil, handlers.BadKey("headers", "the status 444 gives no answer")
		}
		return func(_ *conn.Request, resp *conn.Response) int { return resp.Layer().HangUp() }, nil
	}
	texts := around.Of(env).Maps
	fields, err := checkFields(s.Headers, texts)
	if err != nil {
		return nil, &handlers.KeyError{Key: "headers", Err: err}
	}
	isType := func(f field) bool { return ascii.EqualFold(f.name, "Content-Type") }
	if s.Body != "" && !slices.ContainsFunc(fields, isType) {
		fields = append(fields, field{"Content-Type", text{literal: "text/plain; charset=utf-8"}})
	}
	body, err := parse(s.Body, texts)
	if err != nil {
		return nil, &handlers.KeyError{Key: "body", Err: err}
	}
	if i := slices.IndexFunc(fields, isType); i >= 0 {
		body.escape = escapeFor(fields[i].value)
	}
	literal := []byte(s.Body)
	return func(req *conn.Request, resp *conn.Response) int {
		for _, f := range fields {
			if value := f.value.of(req); value != "" || f.value.parts == nil {
				resp.Header().Set(f.name, value)
			}
		}
		switch {
		case body.parts != nil:
			resp.SetBody([]byte(body.of(req)))
		case len(literal) > 0:
			resp.SetBody(literal)
		}
		return s.Status
	}, nil
}

// parse reads a text.
func parse(s string, texts *placeholder.Maps) (text, error) {
	t, err := texts.Parse(s)
	if err != nil || t.Literal() {
		return text{literal: s}, err
	}
	return text{parts: t}, nil
}

// escapeFor returns how parts of a request stand in a body of that type; nil: as they are. Of a
// page none makes a tag, and none leaves a string of JSON or of a script.
func escapeFor(contentType text) func(string) string {
	media := strings.ToLower(contentType.literal)
	switch {
	case contentType.parts != nil, strings.Contains(media, "html"), strings.Contains(media, "xml"):
		return html.EscapeString
	case strings.Contains(media, "json"), strings.Contains(media, "script"):
		return func(s string) string {
			quoted, _ := json.Marshal(s)
			return otherQuotes.Replace(string(quoted[1 : len(quoted)-1]))
		}
	}
	return nil
}

// otherQuotes escapes what ends the other strings of a script, or runs code in them.
var otherQuotes = strings.NewReplacer("'", `\u0027`, "`", `\u0060`, "$", `\u0024`)

// of returns the text for a request.
func (t *text) of(req *conn.Request) string {
	switch {
	case t.parts == nil:
		return t.literal
	case t.escape == nil:
		return string(placeholder.Append(nil, req, t.parts))
	}
	var b strings.Builder
	for i, p := range t.parts {
		if p.Name == "" {
			b.WriteString(p.Text)
		} else {
			b.WriteString(t.escape(string(placeholder.Append(nil, req, t.parts[i:i+1]))))
		}
	}
	return b.String()
}

// checkFields returns the fields sorted by name.
func checkFields(headers map[string]string, texts *placeholder.Maps) ([]field, error) {
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
		t, err := parse(value, texts)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		fields = append(fields, field{name, t})
	}
	return fields, nil
}
