package response_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/response"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

type fields = map[string]string

func TestResponse(t *testing.T) {
	for _, c := range []struct {
		change func(*response.Settings)
		line   string
		status int
		fields fields // of the answer
		length int64
		body   string
		why    string
	}{
		{func(s *response.Settings) {}, "GET /", 200, fields{}, 0, "", "the defaults"},
		{func(s *response.Settings) { s.Body = "text" }, "GET /", 200,
			fields{"Content-Type": "text/plain; charset=utf-8"}, 4, "text", "a body has a type"},
		{func(s *response.Settings) { s.Body = "text" }, "HEAD /", 200,
			fields{"Content-Type": "text/plain; charset=utf-8"}, 4, "", "HEAD"},
		{func(s *response.Settings) { s.Body = "text" }, "DELETE /x", 200, fields{}, 4, "text",
			"any method"},
		{func(s *response.Settings) {
			s.Body, s.Headers = "{}", fields{"content-type": "application/json", "x-a": "a; b: c"}
		}, "GET /", 200, fields{"Content-Type": "application/json", "X-A": "a; b: c"}, 2, "{}",
			"colons and semicolons are no trouble"},
		{func(s *response.Settings) { s.Status = 204 }, "GET /", 204, fields{}, 0, "", "no body"},
		{func(s *response.Settings) { s.Status, s.Body = 410, "gone" }, "GET /", 410, fields{}, 4,
			"gone", "an error with a page of its own"},
		{func(s *response.Settings) { s.Status, s.Headers = 301, fields{"Location": "/x"} },
			"GET /", 301, fields{"Location": "/x"}, 0, "", ""},
	} {
		t.Run(c.why, func(t *testing.T) {
			h := must.Get(module.Build(t, response.Register, "response", handlers.Env{}, c.change))(t)
			got := module.Start(t, modes.Plain, "/", h).Request(c.line, nil, "")
			if got.StatusCode != c.status || got.Text != c.body ||
				got.ContentLength != c.length && c.status != 204 {
				t.Errorf("got %d %q (Content-Length %d)", got.StatusCode, got.Text,
					got.ContentLength)
			}
			for name, want := range c.fields {
				if values := got.Header.Values(name); len(values) != 1 || values[0] != want {
					t.Errorf("%s: got %q, want %q", name, values, want)
				}
			}
		})
	}
}

// TestPlaceholders: no part of a request leaves the string or the text that it stands in.
func TestPlaceholders(t *testing.T) {
	for _, row := range []struct{ media, body, want string }{
		{"text/plain", "{method} {field.x}", `GET "</script>\`},
		{"Text/HTML; charset=utf-8", "<p>{field.x}", `<p>&#34;&lt;/script&gt;\`},
		{"image/svg+xml", "<a>{field.x}", `<a>&#34;&lt;/script&gt;\`},
		{"{field.t}", "{field.x}", `&#34;&lt;/script&gt;\`},
		{"application/json", `{"a": "{field.x}"}`, `{"a": "\"\u003c/script\u003e\\"}`},
		{"text/javascript", `a("{field.x}")`, `a("\"\u003c/script\u003e\\")`},
		{"text/javascript", "a('{query.q}', `{query.q}`)",
			`a('\u0027\u0060\u0024{x}', ` + "`" + `\u0027\u0060\u0024{x}` + "`)"},
		{"text/ecmascript", `a("{field.x}")`, `a("\"\u003c/script\u003e\\")`},
	} {
		h := must.Get(module.Build(t, response.Register, "response", handlers.Env{},
			func(s *response.Settings) {
				s.Body = row.body
				s.Headers = fields{"Content-Type": row.media, "X-None": "{field.none}", "X-Empty": "",
					"X-Path": "{path}"}
			}))(t)
		got := module.Start(t, modes.Plain, "/", h).Request("GET /a?q=%27%60${x}",
			[]string{`X: "</script>\`, "T: text/html"}, "")
		if got.Text != row.want || got.Header["X-None"] != nil || got.Header["X-Empty"] == nil ||
			got.Header.Get("X-Path") != "/a" {
			t.Errorf("%s: %s, want %s; %v", row.media, got.Text, row.want, got.Header)
		}
	}
}

func TestErrorPage(t *testing.T) {
	h := must.Get(module.Build(t, response.Register, "response", handlers.Env{},
		func(s *response.Settings) { s.Status = 503 }))(t)
	got := module.Start(t, modes.Plain, "/", h).Request("GET /", nil, "")
	if got.StatusCode != 503 || !strings.Contains(got.Header.Get("Content-Type"), "text/html") ||
		!strings.Contains(got.Text, "503") {
		t.Errorf("got %+v", got)
	}
}

// TestNoAnswer: the status 444 closes the connection.
func TestNoAnswer(t *testing.T) {
	h := must.Get(module.Build(t, response.Register, "response", handlers.Env{},
		func(s *response.Settings) { s.Status = 444 }))(t)
	s := module.Start(t, modes.Plain, "/", h)
	if got := s.Exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n"); got != "" {
		t.Errorf("%q", got)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		settings  response.Settings
		key, want string
	}{
		{response.Settings{Status: 99}, "status",
			"status: expected a final status, 200 to 599, not 99"},
		{response.Settings{Status: 100}, "status",
			"status: expected a final status, 200 to 599, not 100"},
		{response.Settings{Status: 600}, "status",
			"status: expected a final status, 200 to 599, not 600"},
		{response.Settings{Status: 204, Body: "x"}, "body",
			"body: an answer with status 204 has none"},
		{response.Settings{Status: 304, Body: "x"}, "body",
			"body: an answer with status 304 has none"},
		{response.Settings{Status: 444, Body: "x"}, "body",
			"body: an answer with status 444 has none"},
		{response.Settings{Status: 444, Headers: fields{"x": "y"}}, "headers",
			"headers: the status 444 gives no answer"},
		{response.Settings{Status: 200, Headers: fields{"a b": "x"}}, "headers",
			`headers: "a b": not a valid name of a header field`},
		{response.Settings{Status: 200, Headers: fields{"": "x"}}, "headers",
			`headers: "": not a valid name of a header field`},
		{response.Settings{Status: 200, Headers: fields{"x": "a\r\nb: c"}}, "headers",
			`headers: "x": control characters cannot be part of a header field`},
		{response.Settings{Status: 200, Headers: fields{"Content-length": "3"}}, "headers",
			`headers: "Content-length": is set by the server itself`},
		{response.Settings{Status: 200, Headers: fields{"X-A": "3", "x-a": "4"}}, "headers",
			"headers: X-A and x-a are the same field"},
	} {
		_, err := module.Build(t, response.Register, "response", handlers.Env{},
			func(s *response.Settings) {
				*s = c.settings
				s.Headers = maps.Clone(s.Headers)
			})
		var bad *handlers.KeyError
		if !errors.As(err, &bad) || bad.Key != c.key || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}
