package rules_test

import (
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
