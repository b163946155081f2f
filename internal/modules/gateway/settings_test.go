package gateway_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/upstreams"
)

// TestSettings: values that cannot be.
func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		name      string
		addresses []string
		change    func(*upstreams.Gateway)
		want      string
	}{
		{"no address", nil, nil, "address: missing: where the application listens"},
		{"an address that is none", []string{"x"}, nil, "address: "},
		{"a parameter of the request's", []string{"a:1"}, func(s *upstreams.Gateway) {
			s.Params = map[string]string{"CONTENT_LENGTH": "5"}
		}, "params: CONTENT_LENGTH is always the request's own"},
		{"a parameter without a name", []string{"a:1"}, func(s *upstreams.Gateway) {
			s.Params = map[string]string{"": "5"}
		}, "params: \"\": expected a name"},
		{"a placeholder", []string{"a:1"}, func(s *upstreams.Gateway) {
			s.Params = map[string]string{"X": "{nothing}"}
		}, "params: X: "},
		{"a field", []string{"a:1"}, func(s *upstreams.Gateway) { s.TrustedFields = []string{"a b"} },
			"trusted_fields: expected the name"},
		{"a status", []string{"a:1"}, func(s *upstreams.Gateway) { s.FailStatus = []int{200} },
			"fail_status: "},
	} {
		each(t, func(t *testing.T, p protocol) {
			_, err := build(p, handlers.Env{Prefix: "/"}, tt.addresses, tt.change)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
			}
		})
	}
}
