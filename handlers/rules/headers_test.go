package rules_test

import (
	"net/http"
	"testing"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/rules"
)

// TestPlaceholdersInHeaders: fields of the answer have parts of the request. One that stands for
// nothing is left out, and takes away the application's all the same.
func TestPlaceholdersInHeaders(t *testing.T) {
	s := start(t, handlers.Env{}, []rules.Rule{
		rule(func(s *rules.Settings) {
			s.SetHeaders = map[string][]string{"X-To": {"{scheme}://{host}:{port}{uri}"},
				"X-From": {"{user}"},
				"X-Json": {`{"a": 1}`}, "X-Empty": {""}}
			s.AddHeaders = map[string][]string{"X-Who": {"{address}", "<{query}>"}}
		}),
	}, map[string][]rules.Rule{"/": nil})
	a := s.Request("GET /a%20b?x", nil, "")
	h := a.Header
	if h.Get("X-To") != "http://test.example:80/a%20b?x" || len(h["X-From"]) != 0 ||
		h.Get("X-Json") != `{"a": 1}` || len(h["X-Empty"]) != 1 || len(h["X-Who"]) != 2 ||
		h["X-Who"][0] != "127.0.0.1" || h["X-Who"][1] != "<?x>" {
		t.Errorf("%v", h)
	}
}

// TestAnswers: fields by the status and the type of the answer, with the groups of an expression.
func TestAnswers(t *testing.T) {
	s := start(t, handlers.Env{}, []rules.Rule{
		rule(func(s *rules.Settings) {
			s.Regexp = `^/(.*)$`
			s.SetHeaders = map[string][]string{"X-Missing": {"{1}"}}
			s.CacheControl = "no-store"
			s.Answer.Status = []string{"4xx", "503"}
		}),
		rule(func(s *rules.Settings) {
			s.Answer = rules.Answer{Status: []string{"200"}, Type: []string{"image/*"}}
			s.CacheControl = "max-age=60"
		}),
		rule(func(s *rules.Settings) {
			s.Answer.Type = []string{"TEXT/*"}
			s.AddHeaders = map[string][]string{"X-Text": {"1"}}
		}),
		rule(func(s *rules.Settings) { // the last one is the first to change a header
			s.Path, s.SetHeaders = []string{"/"}, map[string][]string{"Content-Type": {"text/x; a=b"}}
		}),
		rule(func(s *rules.Settings) { s.Path, s.Deny = []string{"/404"}, 404 }),
		rule(func(s *rules.Settings) { s.Path, s.Deny = []string{"/500"}, 500 }),
	}, map[string][]rules.Rule{"/": nil})
	for target, want := range map[string]http.Header{
		"/404": {"X-Missing": {"404"}, "Cache-Control": {"no-store"}, "X-Text": {"1"}},
		"/500": {"X-Text": {"1"}},
		"/":    {"X-Text": {"1"}},
		"/x":   {"X-Text": {"1"}}, // the type that the server adds
	} {
		h := s.Request("GET "+target, nil, "").Header
		for _, name := range []string{"X-Missing", "Cache-Control", "X-Text"} {
			if h.Get(name) != want.Get(name) {
				t.Errorf("%s: %s: %q, want %q", target, name, h.Get(name), want.Get(name))
			}
		}
	}
	for want, change := range map[string]func(s *rules.Settings){
		`rule 1: answer.status: expected a status such as "404" or "5xx", not "9xx"`: func(
			s *rules.Settings) {
			s.Answer.Status, s.CacheControl = []string{"9xx"}, "no-store"
		},
		"rule 1: answer: is for set_headers, add_headers, remove_headers and cache_control, of which" +
			" the rule has none": func(s *rules.Settings) {
			s.Answer.Status, s.Deny = []string{"404"}, 404
		},
	} {
		_, err := rules.Compile([]rules.Rule{rule(change)}, "", handlers.Env{})
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
