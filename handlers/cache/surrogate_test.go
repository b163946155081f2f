package cache_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// TestSurrogate: the application learns that there is a cache, whatever the client says, and also
// when it is asked whether an answer is still true. What it says to that cache alone, counts.
func TestSurrogate(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		var asked atomic.Int32
		s := start(t, m, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
			asked.Add(1)
			if got := req.Header().Values("Surrogate-Capability"); len(got) != 1 ||
				got[0] != rfc9111.Capability {
				t.Errorf("Surrogate-Capability: %q", got)
			}
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Surrogate-Control", "no-store;other, max-age=10;lwango")
			if status := w.Precondition(`"a"`, time.Time{}); status != 0 {
				return status
			}
			return w.Text(200, "body")
		})
		for i, want := range []string{"200 body lwango; fwd=uri-miss; stored",
			"200 body lwango; hit; ttl=10"} {
			if _, said := get(t, s, "/a", "Surrogate-Capability: x=\"y\""); said != want {
				t.Errorf("step %d: %s, want %s", i, said, want)
			}
		}
		s.Skip(11 * time.Second)
		if a, said := get(t, s, "/a", "Surrogate-Capability: x=\"y\""); a.Text != "body" ||
			asked.Load() != 2 {
			t.Errorf("stale: %s, the application was asked %d times", said, asked.Load())
		}
	})
}

// TestModifiedByDate: an answer without Last-Modified was changed before its Date (RFC 9111 section
// 4.3.2), but that says nothing about its parts.
func TestModifiedByDate(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := start(t, m, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
			w.Header().Set("Cache-Control", "max-age=1000")
			return w.Text(200, "body")
		})
		a, _ := get(t, s, "/a")
		date := a.Header.Get("Date")
		at := must.Get(http1.ParseDate(date))(t)
		// The kept Date may be a second before the one that was sent.
		earlier := string(http1.AppendDate(nil, at.Add(-2*time.Second)))
		for _, tt := range []struct {
			fields []string
			want   int
		}{
			{[]string{"If-Modified-Since: " + date}, http.StatusNotModified},
			{[]string{"If-Modified-Since: " + earlier}, http.StatusOK},
			{[]string{"Range: bytes=0-1", "If-Range: " + date}, http.StatusOK},
			{[]string{"Range: bytes=0-1"}, http.StatusPartialContent},
		} {
			if a, said := get(t, s, "/a", tt.fields...); a.StatusCode != tt.want {
				t.Errorf("%q: %s", tt.fields, said)
			}
		}
	})
}
