package cache_test

import (
	"fmt"
	"net/http"
	"net/http/fcgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

// TestAccelExpires: what an application says in X-Accel-Expires counts, also behind proxy and
// fastcgi, and no client gets the field, whether the answer is kept, passed on, or validated.
func TestAccelExpires(t *testing.T) {
	var n atomic.Int32
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "private")
		h.Set("ETag", `"x"`)
		h.Set("X-Accel-Expires", "10")
		if r.URL.Path == "/zero.php" {
			h.Set("Cache-Control", "max-age=1000")
			h.Set("X-Accel-Expires", "0")
		}
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(304)
			return
		}
		fmt.Fprint(w, n.Add(1))
	})
	up := httptest.NewServer(app)
	defer up.Close()
	ln := must.Listen(t)
	go func() { _ = fcgi.Serve(ln, app) }()
	root := t.TempDir()
	for _, name := range []string{"a.php", "b.php", "zero.php"} {
		must.Do(t, os.WriteFile(filepath.Join(root, name), nil, 0o600))
	}
	for name, h := range map[string]conn.Handler{
		"handler": func(req *conn.Request, w *conn.Response) int {
			rec := httptest.NewRecorder()
			r := httptest.NewRequest("GET", req.Target(), nil)
			for name, value := range req.Header().All() {
				r.Header.Add(name, value)
			}
			app(rec, r)
			for name, values := range rec.Header() {
				w.Header().Set(name, values[0])
			}
			if rec.Code == 304 {
				return 304
			}
			return w.Text(200, rec.Body.String())
		},
		"proxy": must.Get(module.Build(t, proxy.Register, "proxy", handlers.Env{Prefix: "/"},
			func(s *proxy.Settings) { s.Address = []string{up.Listener.Addr().String()} }))(t),
		"fastcgi": must.Get(module.Build(t, fastcgi.Register, "fastcgi", handlers.Env{Prefix: "/"},
			func(s *fastcgi.Settings) {
				s.Address, s.ScriptPath = []string{ln.Addr().String()}, root
			}))(t),
	} {
		t.Run(name, func(t *testing.T) {
			bypass := rules.When{Conditions: rules.Conditions{Path: []string{"/b.php"}}}
			s := start(t, modes.Direct, cache.Settings{Bypass: []rules.When{bypass}}, h)
			for i, tt := range []struct {
				skip   time.Duration
				target string
				want   string
			}{
				{0, "/a.php", "fwd=uri-miss; stored"},
				{0, "/a.php", "hit; ttl=10"},
				{11 * time.Second, "/a.php", "fwd=stale; fwd-status=304; stored"},
				{0, "/a.php", "hit; ttl=10"},
				{0, "/zero.php", "fwd=uri-miss"},
				{0, "/zero.php", "fwd=uri-miss"},
				{0, "/b.php", "fwd=bypass"},
			} {
				s.Skip(tt.skip)
				a, _ := get(t, s, tt.target)
				said := strings.TrimPrefix(a.Header.Get("Cache-Status"), "lwango; ")
				if said != tt.want || a.StatusCode != 200 || a.Header.Get("X-Accel-Expires") != "" {
					t.Errorf("step %d: %d %s, want %s; %v", i, a.StatusCode, said, tt.want, a.Header)
				}
			}
		})
	}
}
