package cache_test

import (
	"mime"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestSeveralParts: an answer with several parts has no Content-Range of its own, whatever the
// application has said (RFC 9110 section 15.3.7.2), and its parts have a type if the answer had
// one.
func TestSeveralParts(t *testing.T) {
	for _, contentType := range []string{"", "text/plain"} {
		o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
			fields(w, "Cache-Control: max-age=100", "Content-Range: bytes 0-9/10")
			if contentType != "" {
				fields(w, "Content-Type: "+contentType)
			}
			w.Layer().Relay(200, "") // whose type nobody guesses
			w.SetBody([]byte("0123456789"))
			return 200
		}}
		s := start(t, modes.Direct, cache.Settings{}, o.serve)
		get(t, s, "/")
		a, said := get(t, s, "/", "Range: bytes=1-2,5-6")
		kind, params, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
		if a.StatusCode != 206 || kind != "multipart/byteranges" || a.Header.Get("Content-Range") != "" ||
			!strings.Contains(said, "; hit") {
			t.Fatalf("%s %v", said, a.Header)
		}
		r := multipart.NewReader(strings.NewReader(a.Text), params["boundary"])
		for range 2 {
			p, err := r.NextPart()
			if err != nil {
				t.Fatal(err)
			}
			if types, has := p.Header["Content-Type"]; has != (contentType != "") ||
				has && types[0] != contentType || p.Header.Get("Content-Range") == "" {
				t.Errorf("type %q: %v", contentType, p.Header)
			}
		}
	}
}
