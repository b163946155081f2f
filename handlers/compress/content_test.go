package compress_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestJSON: an answer of resp.JSON is compressed, the one that is sent by its length as well as the
// one that is gathered, and one that could not be made is an error page.
func TestJSON(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			switch req.Path() {
			case "/small":
				return resp.JSON(200, "small")
			case "/broken":
				return resp.JSON(200, func() {})
			case "/failed":
				return resp.JSON(422, []string{prose(5000)})
			}
			n := 5000
			if req.Path() == "/large" {
				n = 300 << 10
			}
			return resp.JSON(201, []string{prose(n)})
		})
		for _, e := range encodings {
			for path, want := range map[string]struct{ status, size int }{
				"/": {201, 5000}, "/large": {201, 300 << 10}, "/failed": {422, 5000},
			} {
				a := s.Request("GET "+path, []string{"Accept-Encoding: " + e}, "")
				var got []string
				if err := json.Unmarshal([]byte(decode(t, a)), &got); err != nil || len(got) != 1 ||
					got[0] != prose(want.size) {
					t.Errorf("%s, %s: %v", path, e, err)
				}
				coded := strings.TrimPrefix(e, "identity")
				if a.StatusCode != want.status || a.Header.Get("Content-Type") != "application/json" ||
					strings.Join(a.Header["Vary"], ", ") != "Accept-Encoding" ||
					a.Header.Get("Content-Encoding") != coded || (coded != "") == (a.ContentLength >= 0) {
					t.Errorf("%s, %s: %s %v", path, e, a.Status, a.Header)
				}
			}
			if a := s.Request("GET /small", []string{"Accept-Encoding: " + e},
				""); a.Text != "\"small\"\n" ||
				a.Header.Get("Content-Encoding") != "" {
				t.Errorf("small, %s: %q %v", e, a.Text, a.Header)
			}
			if a := s.Request("GET /broken", []string{"Accept-Encoding: " + e}, ""); a.StatusCode != 500 {
				t.Errorf("broken, %s: %s", e, a.Status)
			}
		}
	}, modes.Direct, modes.OverTLS)
}

// TestServeContent: the whole is compressed, a part of it never, which is one of the content as it
// is; and caches learn of both that the client's Accept-Encoding has decided.
func TestServeContent(t *testing.T) {
	text := prose(50 << 10)
	changed := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	const date = "Sun, 22 Nov 2026 00:00:00 GMT"
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			name := "a.txt"
			if req.Path() == "/image" {
				name = "a.png"
			}
			if req.Path() != "/dated" {
				resp.Header().Set("ETag", `"a"`)
			}
			return resp.ServeContent(name, changed, bytes.NewReader([]byte(text)), int64(len(text)))
		})
		for _, tt := range []struct {
			path   string
			fields string
			status int
			coding string
			body   string // "": the whole
			tag    string
			vary   string
		}{
			{"/", "", 200, "gzip", "", `"a-gzip"`, "Accept-Encoding"},
			{"/", "Range: bytes=0-9", 206, "", text[:10], `"a"`, "Accept-Encoding"},
			{"/", "Range: bytes=100-20099", 206, "", text[100:20100], `"a"`, "Accept-Encoding"},
			{"/", "Range: bytes=-5000", 206, "", text[len(text)-5000:], `"a"`, "Accept-Encoding"},
			{"/", "Range: bytes=0-", 206, "", text, `"a"`, "Accept-Encoding"},
			{"/", "Range: lines=1-2", 200, "gzip", "", `"a-gzip"`, "Accept-Encoding"},
			{"/", "Range: bytes=0-9\r\nIf-Range: \"a\"", 206, "", text[:10], `"a"`, "Accept-Encoding"},
			// It has the encoded form, of which nothing can be continued.
			{"/", "Range: bytes=0-9\r\nIf-Range: W/\"a\"", 200, "gzip", "", `"a-gzip"`, "Accept-Encoding"},
			{"/dated", "Range: bytes=0-9\r\nIf-Range: " + date, 200, "gzip", "", "", "Accept-Encoding"},
			{"/", "Range: bytes=0-9\r\nIf-Range: \"a-gzip\"", 200, "gzip", "", `"a-gzip"`,
				"Accept-Encoding"},
			{"/", "If-None-Match: W/\"a\"", 304, "", "-", `"a"`, "Accept-Encoding"},
			{"/", "If-None-Match: \"a-gzip\"", 304, "", "-", `"a-gzip"`, "Accept-Encoding"},
			{"/image", "", 200, "", "", `"a"`, ""},
			{"/image", "Range: bytes=0-9", 206, "", text[:10], `"a"`, ""},
		} {
			fields := []string{"Accept-Encoding: gzip"}
			if tt.fields != "" {
				fields = append(fields, tt.fields)
			}
			a := s.Request("GET "+tt.path, fields, "")
			want := strings.TrimPrefix(tt.body, "-")
			if tt.body == "" {
				want = text
			}
			if got := decode(t, a); a.StatusCode != tt.status || got != want ||
				a.Header.Get("Content-Encoding") != tt.coding || a.Header.Get("ETag") != tt.tag ||
				strings.Join(a.Header["Vary"], ", ") != tt.vary ||
				(a.Header.Get("Content-Range") != "") != (tt.status == 206) {
				t.Errorf("%s, %q: %s, %d bytes, %v", tt.path, tt.fields, a.Status, len(got), a.Header)
			}
		}
		several := s.Request("GET /", []string{"Accept-Encoding: gzip", "Range: bytes=0-9,20000-29999"},
			"")
		if several.StatusCode != 206 || several.Header.Get("Content-Encoding") != "" ||
			several.Header.Get("Vary") != "Accept-Encoding" ||
			!strings.Contains(several.Text, text[20000:30000]) {
			t.Errorf("several ranges: %s %v", several.Status, several.Header)
		}
		if a := s.Request("GET /", []string{"Accept-Encoding: gzip", "Range: bytes=99999-"},
			""); a.StatusCode != 416 ||
			a.Header.Get("Content-Range") != "bytes */51200" {
			t.Errorf("beyond the end: %s %v", a.Status, a.Header)
		}
	}, modes.Direct, modes.OverTLS)
}
