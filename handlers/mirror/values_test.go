package mirror_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/mirror"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestValues: an http.Handler that gets the copies finds in its context what the request had: its
// values, its user, and what the context of SetContext has.
func TestValues(t *testing.T) {
	type key struct{}
	var name conn.Key[string]
	for form, bridge := range map[string]func(http.Handler) conn.Handler{
		"off the loop": conn.HTTP, "on the loop": conn.HTTPOnLoop,
	} {
		t.Run(form, func(t *testing.T) {
			seen := make(chan string, 1)
			other := bridge(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				n, ok := conn.ValueOf(r.Context(), &name)
				seen <- fmt.Sprint(n, ok, conn.UserOf(r.Context()), r.Context().Value(key{}), r.Context().Err())
			}))
			front := func(*handlers.SiteRoutes) handlers.Middleware {
				return func(next conn.Handler) conn.Handler {
					return func(req *conn.Request, resp *conn.Response) int {
						conn.Set(req, &name, "ann")
						req.Layer().SetUser("eve", "")
						ctx, cancel := context.WithCancel(context.WithValue(req.Context(), key{}, "v"))
						defer cancel()
						req.SetContext(ctx)
						return next(req, resp)
					}
				}
			}
			hello := func(_ *conn.Request, resp *conn.Response) int { return resp.Text(0, "hello") }
			s := startBehind(t, modes.Direct, mirror.Settings{}, front, hello, other)
			if a := s.Dial().Do("GET", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); a.Text != "hello" {
				t.Errorf("%s: %q", a.Status, a.Text)
			}
			if got, want := <-seen, "anntrueevev<nil>"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}
