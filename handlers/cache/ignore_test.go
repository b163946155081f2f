package cache_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestIgnore: fields of an answer that do not count leave it to ttl whether it is kept, and go to
// clients all the same, but for cookies.
func TestIgnore(t *testing.T) {
	for _, tt := range []struct {
		ignore, fields string // lines
		hit            bool
		why            string
	}{
		{"", "Cache-Control: no-store", false, "nothing is ignored"},
		{"cache-control", "Cache-Control: private, no-store", true, "names in any case"},
		{"Expires", "Cache-Control: no-store", false, "another field"},
		{"Expires", "Expires: 0", true, "a date in the past"},
		{"Cache-Control", "Expires: 0", false, "which is not ignored"},
		{"Cache-Control\nExpires", "Cache-Control: max-age=0\nExpires: 0", true, "both"},
		{"Vary", "Vary: *", true, "one answer for all"},
		{"X-Accel-Expires", "X-Accel-Expires: 0", true, "nginx's"},
		{"Surrogate-Control", "Surrogate-Control: no-store", true, "caches'"},
		{"CDN-Cache-Control", "CDN-Cache-Control: no-store", true, "RFC 9213"},
		{"", "Set-Cookie: a=b", false, "a cookie is for one client"},
		{"Set-Cookie", "Set-Cookie: a=b\nSet-Cookie: c=d", true, "kept without"},
		{"Set-Cookie", "Set-Cookie: a=b\nCache-Control: private", false, "private all the same"},
	} {
		for _, buffering := range []bool{false, true} {
			s := cache.Settings{TTL: map[string]time.Duration{"200": time.Minute}}
			if tt.ignore != "" {
				s.Ignore = strings.Split(tt.ignore, "\n")
			}
			var asked atomic.Int32
			c := startAs(t, modes.Direct, s, func(req *conn.Request, w *conn.Response) int {
				for line := range strings.Lines(tt.fields) {
					name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
					w.Header().Add(name, value)
				}
				return w.Text(200, strconv.Itoa(int(asked.Add(1))))
			}, buffering)
			first, _ := get(t, c, "/a")
			second, said := get(t, c, "/a")
			if hit := second.Text == "1"; first.Text != "1" || hit != tt.hit {
				t.Errorf("%s: %s, then %s", tt.why, first.Text, said)
			}
			cookies := strings.Count(tt.fields, "Set-Cookie")
			if n := len(first.Header.Values("Set-Cookie")); n != cookies {
				t.Errorf("%s: %d cookies for the client that asks", tt.why, n)
			}
			if n := len(second.Header.Values("Set-Cookie")); n > 0 && tt.hit {
				t.Errorf("%s: %d cookies are kept", tt.why, n)
			}
			if control := second.Header.Get("Cache-Control"); control != first.Header.Get("Cache-Control") {
				t.Errorf("%s: Cache-Control: %q", tt.why, control)
			}
		}
	}
	for want, s := range map[string]cache.Settings{
		`ignore: expected names among Cache-Control, Expires, Set-Cookie, Vary, CDN-Cache-Control, ` +
			`Surrogate-Control, X-Accel-Expires, not "Date"`: {Ignore: []string{"Date"}},
		"ignore: Set-Cookie: with keep_cookies, answers are kept with their cookies": {
			Ignore: []string{"Set-Cookie"}, KeepCookies: true},
	} {
		if _, err := cache.New(open(t), s, handlers.Env{}); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// TestIgnoreRevalidated: a 304 whose fields do not count makes what is kept fresh.
func TestIgnoreRevalidated(t *testing.T) {
	var asked atomic.Int32
	s := start(t, modes.Direct, cache.Settings{TTL: map[string]time.Duration{"200": time.Minute},
		Ignore: []string{"Cache-Control", "Set-Cookie"}},
		func(req *conn.Request, w *conn.Response) int {
			asked.Add(1)
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Set-Cookie", "a=b")
			if status := w.Precondition(`"a"`, time.Time{}); status != 0 {
				return status
			}
			return w.Text(200, "body")
		})
	get(t, s, "/a")
	s.Skip(2 * time.Minute)
	for range 2 {
		if a, said := get(t, s, "/a"); a.Text != "body" || a.Header.Get("Set-Cookie") != "" {
			t.Error(said, a.Header)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the application was asked %d times", n)
	}
}

// TestRenew: the application is asked although what is kept is fresh, and its answer takes the
// place of that.
func TestRenew(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		var n atomic.Int32
		s := start(t, m, cache.Settings{HonourClients: new(false), Renew: []rules.When{{
			Conditions: rules.Conditions{Header: map[string][]string{"X-Renew": {"yes"}}}}}},
			counting(&n, "max-age=10"))
		for i, step := range []struct{ field, want string }{
			{"A: b", "200 1 lwango; fwd=uri-miss; stored"},
			{"A: b", "200 1 lwango; hit; ttl=10"},
			{"X-Renew: yes", "200 2 lwango; fwd=request; stored"},
			{"A: b", "200 2 lwango; hit; ttl=10"},
			{"Cache-Control: no-cache", "200 2 lwango; hit; ttl=10"},
		} {
			if _, said := get(t, s, "/a", step.field); said != step.want {
				t.Errorf("step %d: %s, want %s", i, said, step.want)
			}
		}
	})
}
