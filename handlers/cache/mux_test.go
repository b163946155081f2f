package cache_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
)

// TestMux: the layer is middleware of a Mux: its patterns, their values and its errors are as they
// are without, and what is around the layer sees hits.
func TestMux(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := &cached{store: open(t)}
		var asked, passed atomic.Int32
		mux := handlers.NewMux()
		mux.Use(func(next conn.Handler) conn.Handler {
			return func(req *conn.Request, w *conn.Response) int {
				passed.Add(1)
				if req.Header().Get("Authorization") == "bad" {
					return 401
				}
				return next(req, w)
			}
		})
		mux.Use(must.Get(cache.New(s.store, cache.Settings{}, handlers.Env{}))(t))
		mux.Handle("GET /products/{id}", func(req *conn.Request, w *conn.Response) int {
			asked.Add(1)
			w.Cache(time.Minute, "product-"+req.PathValue("id"))
			return w.Text(200, fmt.Sprint("product ", req.PathValue("id"), " of ", req.Pattern()))
		})
		mux.Handle("POST /products/{id}", func(req *conn.Request, w *conn.Response) int {
			asked.Add(1)
			return w.Text(200, "changed "+req.PathValue("id"))
		})
		mux.Handle("GET /files/{path...}", func(req *conn.Request, w *conn.Response) int {
			asked.Add(1)
			w.Cache(time.Minute)
			return w.Text(200, req.PathValue("path"))
		})
		s.Server = serveAllIn(t, m, mux.Serve)
		ask := func(line string, fields ...string) string {
			a := s.Request(line, fields, "")
			text, _, _ := strings.Cut(a.Text, "\n")
			if strings.Contains(text, "<") {
				text = ""
			}
			return fmt.Sprint(a.StatusCode, " ", text, " ", a.Header.Get("Cache-Status"))
		}
		for i, tt := range []struct {
			line, field, want string
			asked             int32
		}{
			{"GET /products/7", "", "200 product 7 of GET /products/{id} lwango; fwd=uri-miss; stored", 1},
			{"GET /products/7", "", "200 product 7 of GET /products/{id} lwango; hit; ttl=60", 1},
			{"HEAD /products/7", "", "200  lwango; hit; ttl=60", 1},
			{"GET /products/8", "", "200 product 8 of GET /products/{id} lwango; fwd=uri-miss; stored", 2},
			{"GET /products/7", "Authorization: bad", "401  ", 2},
			{"POST /products/7", "", "200 changed 7 lwango; fwd=method", 3},
			{"GET /products/7", "", "200 product 7 of GET /products/{id} lwango; fwd=uri-miss; stored", 4},
			{"GET /products/8", "", "200 product 8 of GET /products/{id} lwango; hit; ttl=60", 4},
			{"GET /files/a/b", "", "200 a/b lwango; fwd=uri-miss; stored", 5},
			{"GET /files/a/b", "", "200 a/b lwango; hit; ttl=60", 5},
			{"GET /none", "", "404  lwango; fwd=uri-miss", 5},
			{"DELETE /products/8", "", "405  lwango; fwd=method", 5},
			{"GET /products/8", "", "200 product 8 of GET /products/{id} lwango; hit; ttl=60", 5},
		} {
			var fields []string
			if tt.field != "" {
				fields = append(fields, tt.field)
			}
			if got := ask(tt.line, fields...); got != tt.want || asked.Load() != tt.asked {
				t.Errorf("step %d, %s: %s, %d requests to the handlers; want %s, %d", i, tt.line, got,
					asked.Load(), tt.want, tt.asked)
			}
			if passed.Load() != int32(i+1) {
				t.Errorf("step %d: what is around the layer has seen %d", i, passed.Load())
			}
		}
	}, modes.Direct, modes.HTTP2)
}
