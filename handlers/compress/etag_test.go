package compress_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
)

// A client that has got an encoded body may come back with its entity tag, also to change what has
// that state; what compares the tags, the server or a handler of net/http, finds its own.
func TestTagOfEncoded(t *testing.T) {
	handlers := map[string]conn.Handler{
		"Precondition": func(req *conn.Request, resp *conn.Response) int {
			if status := resp.Precondition(`"v7"`, time.Time{}); status != 0 {
				return status
			}
			return resp.Text(200, prose(5000))
		},
		"net/http": conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"v7"`)
			http.ServeContent(w, r, "a.txt", time.Time{}, strings.NewReader(prose(5000)))
		})),
	}
	for name, h := range handlers {
		s := start(t, modes.Direct, h)
		for _, c := range []struct{ line, fields, want string }{
			{"GET /", "Accept-Encoding: gzip", `200 "v7-gzip"`},
			{"GET /", "Accept-Encoding: gzip|If-None-Match: \"v7-gzip\"", `304 "v7-gzip"`},
			{"GET /",
				"Accept-Encoding: br, gzip|If-None-Match: \"v6\"|If-None-Match: \"v5-br\" ,\"v7-gzip\"",
				`304 "v7-gzip"`},
			{"GET /", "Accept-Encoding: gzip|If-None-Match: \"v7\"", `304 "v7"`},
			{"GET /", "Accept-Encoding: gzip|If-None-Match: \"v6-gzip\"", `200 "v7-gzip"`},
			// What a cache has for others is not for this one.
			{"GET /", "If-None-Match: \"v7-gzip\"", `200 "v7"`},
			{"GET /", "If-None-Match: \"v7-gzip\", \"v7\"", `304 "v7"`},
			{"GET /", "Accept-Encoding: br|If-None-Match: \"v7-gzip\"", `200 "v7-br"`},
			{"GET /", "If-Match: \"v7-gzip\"", `200 "v7"`},
			{"PUT /", "If-Match: \"v7-gzip\"", "200 "},
			{"PUT /", "If-Match: \"v6-gzip\"", "412 "},
			{"PUT /", "If-Match: \"v7-gzip-gzip\"", "412 "},
			{"PUT /", "If-None-Match: \"v7-br\"", "412 "},
			{"PUT /", "If-Match: \"v7-br\"|If-None-Match: \"v6-br\"", "200 "},
			{"GET /", "Accept-Encoding: br|If-Match: \"v7-br\"|If-None-Match: \"v7-br\"", `304 "v7-br"`},
		} {
			if name == "net/http" && strings.HasPrefix(c.line, "PUT") {
				continue // ServeContent sets the tag there, too
			}
			a := s.Request(c.line, strings.Split(c.fields, "|"), "")
			if got := fmt.Sprintf("%d %s", a.StatusCode, a.Header.Get("ETag")); got != c.want {
				t.Errorf("%s: %s, %s: got %s, want %s", name, c.line, c.fields, got, c.want)
			}
		}
	}
}
