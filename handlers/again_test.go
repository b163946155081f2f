package handlers_test

import (
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
)

// TestAgain: of a route whose handler has rewritten the request nothing is left, and the site has
// its part in the answer.
func TestAgain(t *testing.T) {
	trace := func(name string, next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			resp.Layer().BeforeHead(func(_ *conn.Request, resp *conn.Response, _ int) {
				resp.Header().Add("Hook", name)
			})
			resp.Layer().OnError(func(_ *conn.Request, resp *conn.Response, _ int) bool {
				if name != "new" {
					resp.WriteString(name)
				}
				return name != "new"
			})
			return next(req, resp)
		}
	}
	router, err := handlers.NewRouter([]handlers.Site{{
		Around: func(next conn.Handler) conn.Handler { return trace("site", next) },
		Routes: []handlers.Route{
			{Prefix: "/old", Handler: trace("old", func(req *conn.Request, _ *conn.Response) int {
				if err := req.Layer().Rewrite("/new"); err != nil {
					t.Error(err)
				}
				return handlers.Again
			})},
			{Prefix: "/new", Handler: trace("new", func(*conn.Request, *conn.Response) int { return 404 })},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := server.Start(t, modes.Direct, conn.Config{Handler: router.Serve})
	a := s.Request("GET /old", nil, "")
	if got := a.Header["Hook"]; a.StatusCode != 404 || a.Text != "site" || len(got) != 2 ||
		got[0] != "new" || got[1] != "site" {
		t.Errorf("%s, %q, %q", a.Status, got, a.Text)
	}
}
