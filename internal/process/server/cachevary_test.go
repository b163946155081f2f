package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestVaryOnWhatTheServerSets: what an answer varies by has to be what the application has seen. Of
// fields that the server makes, a cache cannot tell that from what the client has sent.
func TestVaryOnWhatTheServerSets(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("vary")
		w.Header().Set("Cache-Control", "max-age=100")
		w.Header().Set("Vary", "Accept-Language, "+name)
		fmt.Fprint(w, r.Header.Get(name))
	}))
	defer app.Close()
	s := serveCached(t, `
[[site.route]]
prefix = "/"
module = "proxy"
address = "AAA"
request_headers = { X-Here = "here", X-Host = "{host}", X-User = "{user}" }
add_request_headers = { X-More = ["more {address}"], X-Also = ["also"] }
[[site.route]]
prefix = "/own"
module = "proxy"
address = "AAA"
cache = { key = "{uri}" }
`, "AAA", app.Listener.Addr().String())
	const kept, any = true, false
	for _, tt := range []struct {
		target, name string
		keeps        bool
	}{
		{"/", "X-Forwarded-For", any},
		{"/", "Forwarded", any},
		{"/", "X-Request-ID", any},
		{"/", "Via", any},
		{"/", "X-User", any},
		{"/", "X-More", any},
		{"/", "X-Forwarded-Proto", kept},
		{"/", "X-Forwarded-Host", kept},
		{"/", "Host", kept},
		{"/", "X-Here", kept},
		{"/", "X-Host", kept},
		{"/", "X-Also", kept},
		{"/", "X-Client", kept},
		{"/own", "X-Forwarded-Proto", any}, // which may be another one for the same key
		{"/own", "X-Client", kept},
	} {
		var bodies, statuses [2]string
		for i := range 2 {
			bodies[i], statuses[i], _ = s.ask(tt.target+"?vary="+tt.name,
				"X-Forwarded-For: 192.0.2.1", // so that the client's own is another one, too
				"X-Client: 1")
		}
		if hit := strings.Contains(statuses[1], "; hit"); hit != tt.keeps ||
			hit && bodies[0] != bodies[1] {
			t.Errorf("%s, Vary: %s: %q", tt.target, tt.name, statuses)
		}
	}
	// What varies by the server's constant is one answer, whatever the client sends there.
	for i, own := range []string{"a", "b"} {
		if body, status, _ := s.ask("/one?vary=X-Here", "X-Here: "+own); body != "here" ||
			strings.Contains(status, "; hit") != (i == 1) {
			t.Errorf("X-Here: %s: %s", own, status)
		}
	}
}
