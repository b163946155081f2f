package fastcgi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// fetch sends a request to a server that runs apart from the test. fields are a name and a value in
// turn. Redirects are not followed.
func fetch(t *testing.T, method, url string, fields []string, body string) got {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return got{status: resp.StatusCode, reason: resp.Status, header: resp.Header, body: string(b),
		err: err}
}
