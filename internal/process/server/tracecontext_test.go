package server_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// TestTraceContext: the trace context of a client (W3C) reaches an upstream as it came, and the
// access log.
func TestTraceContext(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	states := []string{"rojo=00f067aa0ba902b7", "congo=t61rcWkgMzE"}
	var got http.Header
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header
	}))
	defer app.Close()
	log := filepath.Join(t.TempDir(), "log")
	s := serve(t, source(), "[access_log]\npath = \""+log+"\"\nformat = \"{field.traceparent}\"\n"+
		route("prefix = \"/\"\nmodule = \"proxy\"\naddress = \""+app.Listener.Addr().String()+"\"\n"))
	req := must.Get(http.NewRequest("GET", "http://"+s.at+"/", nil))(t)
	req.Header.Set("Traceparent", parent)
	req.Header["Tracestate"] = states
	must.Body(t, must.Get((&http.Transport{DisableKeepAlives: true}).RoundTrip(req))(t))
	if got.Get("Traceparent") != parent || !slices.Equal(got["Tracestate"], states) {
		t.Errorf("the upstream gets %v", got)
	}
	s.end()
	if text := must.Read(t, log); text != parent+"\n" {
		t.Errorf("the log has %q", text)
	}
}
