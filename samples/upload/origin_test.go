package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
)

// A page of another site cannot have a browser send files here.
func TestOrigin(t *testing.T) {
	s, dir := serve(t, conn.Config{}, 1)
	text, kind := encode(t, upload{"a.txt", []byte("a")})
	host := strings.TrimPrefix(s.URL, "http://")
	for i, c := range []struct {
		origin, site string
		want         int
	}{
		{"", "", 201},
		{"http://" + host, "", 201},
		{"http://" + host, "same-origin", 201},
		{"", "none", 201},
		{"https://attack.example", "", 403},
		{"null", "", 403},
		{"http://" + host + ".attack.example", "", 403},
		{"http://" + host, "cross-site", 403},
		{"http://" + host, "same-site", 403},
	} {
		req, err := http.NewRequest("POST", s.URL+"/uploads/an-id-of-"+string(rune('a'+i)),
			strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		_, value, _ := strings.Cut(kind, ": ")
		req.Header.Set("Content-Type", value)
		for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		resp := must.Get((&http.Transport{DisableKeepAlives: true}).RoundTrip(req))(t)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%+v: %s", c, resp.Status)
		}
	}
	one := []byte("a")
	has(t, dir, map[string][]byte{"a.txt": one, "a (2).txt": one, "a (3).txt": one, "a (4).txt": one})
}
