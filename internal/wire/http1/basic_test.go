package http1_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/http1"
)

// FuzzBasicCredentials: name and password are those that net/http finds, but for the spaces behind
// the scheme, of which RFC 9110 section 11.4 allows several.
func FuzzBasicCredentials(f *testing.F) {
	for _, s := range []string{"Basic YTpi", "basic  YTpiOmM=", "Basic", "Basic ", "BasicYTpi",
		"Basic YTpi=", "Basic Og==",
		"Basic YQ==", "Basic YTpi\r\n", "Bearer YTpi", "Basic _-_-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		std := field
		if scheme, rest, ok := strings.Cut(field, " "); ok {
			std = scheme + " " + strings.TrimLeft(rest, " ")
		}
		r := http.Request{Header: http.Header{"Authorization": {std}}}
		name, password, ok := r.BasicAuth()
		for _, room := range []int{len(field), 8} { // in 8 bytes, long ones have no room
			n, p, found := http1.BasicCredentials(make([]byte, room), []byte(field))
			if room < len(field) && !found {
				continue
			}
			if found != ok || string(n) != name || string(p) != password {
				t.Errorf("%q: %q %q %v, net/http: %q %q %v", field, n, p, found, name, password, ok)
			}
		}
	})
}
