package files

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

func Conditions(t *testing.T, s *server.Server) {
	const (
		earlier = "Fri, 01 Mar 2024 11:59:59 GMT"
		later   = "Fri, 01 Mar 2024 12:00:01 GMT"
		other   = `"other"`
	)
	for _, c := range []struct {
		fields []string
		status int
		why    string
	}{
		{[]string{"If-None-Match: " + ETag}, 304, ""},
		{[]string{"If-None-Match: W/" + ETag}, 304, "weak comparison"},
		{[]string{"If-None-Match: " + other + ", " + ETag}, 304, "one of a list"},
		{[]string{"If-None-Match: " + other, "if-none-match: " + ETag}, 304,
			"a list in two fields"},
		{[]string{"If-None-Match: *"}, 304, "anything"},
		{[]string{"If-None-Match: " + other}, 200, ""},
		{[]string{"If-Modified-Since: " + LastModified}, 304, ""},
		{[]string{"If-Modified-Since: " + later}, 304, ""},
		{[]string{"If-Modified-Since: " + earlier}, 200, ""},
		{[]string{"If-Modified-Since: Friday, 01-Mar-24 12:00:00 GMT"}, 304,
			"the old forms of dates"},
		{[]string{"If-Modified-Since: Fri Mar  1 12:00:00 2024"}, 304, ""},
		{[]string{"If-Modified-Since: yesterday"}, 200, "no date"},
		{[]string{"If-Modified-Since: " + LastModified, "If-Modified-Since: " + LastModified}, 200,
			"twice"},
		{[]string{"If-None-Match: " + other, "If-Modified-Since: " + later}, 200,
			"the tag decides, the date is not looked at"},
		{[]string{"If-None-Match: " + ETag, "If-Modified-Since: " + earlier}, 304, ""},
		{[]string{"If-Match: " + ETag}, 200, ""},
		{[]string{"If-Match: *"}, 200, ""},
		{[]string{"If-Match: " + other + " ," + ETag}, 200, ""},
		{[]string{"If-Match: W/" + ETag}, 412, "strong comparison"},
		{[]string{"If-Match: " + other}, 412, ""},
		{[]string{"If-Unmodified-Since: " + LastModified}, 200, ""},
		{[]string{"If-Unmodified-Since: " + later}, 200, ""},
		{[]string{"If-Unmodified-Since: " + earlier}, 412, ""},
		{[]string{"If-Unmodified-Since: never"}, 200, "no date"},
		{[]string{"If-Match: " + ETag, "If-Unmodified-Since: " + earlier}, 200, "the tag decides"},
		{[]string{"If-Match: " + other, "If-None-Match: " + ETag}, 412, "If-Match comes first"},
		{[]string{"If-Match: " + ETag, "If-None-Match: " + ETag}, 304, "then If-None-Match"},
		{[]string{"If-Unmodified-Since: " + earlier, "If-Modified-Since: " + later}, 412, ""},
		{[]string{"If-None-Match: " + ETag, "Range: bytes=0-1"}, 304, "before Range"},
		{[]string{"If-Match: " + other, "Range: bytes=0-1"}, 412, ""},
		{[]string{"If-Match: " + ETag, "Range: bytes=0-1"}, 206, ""},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			status := c.status
			if method == "HEAD" && status == 206 {
				status = 200
			}
			got := s.Request(method+" /a.txt", c.fields, "")
			if got.StatusCode != status {
				t.Errorf("%s %q: got %d, want %d (%s)", method, c.fields, got.StatusCode, status,
					c.why)
			}
			if status == 304 && (got.Header.Get("ETag") != ETag ||
				got.Header.Get("Last-Modified") != LastModified || got.Text != "") {
				t.Errorf("%s %q: 304 with %v %q", method, c.fields, got.Header, got.Text)
			}
			if status == 412 && got.Header.Get("ETag") != "" {
				t.Errorf("%s %q: 412 with %v", method, c.fields, got.Header)
			}
		}
	}
	if got := s.Request("GET /nothing", []string{"If-Match: *"}, ""); got.StatusCode != 404 {
		t.Errorf("a condition about nothing: %d", got.StatusCode)
	}
}

func SingleRange(t *testing.T, s *server.Server) {
	for _, c := range []struct {
		path, field  string
		status       int
		contentRange string
		body         string
		why          string
	}{
		{"/a.txt", "bytes=0-3", 206, "bytes 0-3/10", "0123", ""},
		{"/a.txt", "bytes=4-4", 206, "bytes 4-4/10", "4", ""},
		{"/a.txt", "bytes=7-", 206, "bytes 7-9/10", "789", "to the end"},
		{"/a.txt", "bytes=7-100", 206, "bytes 7-9/10", "789", "beyond the end"},
		{"/a.txt", "bytes=-3", 206, "bytes 7-9/10", "789", "from the end"},
		{"/a.txt", "bytes=-100", 206, "bytes 0-9/10", "0123456789", ""},
		{"/a.txt", "bytes=0-", 206, "bytes 0-9/10", "0123456789", "all of it is a range too"},
		{"/a.txt", "Bytes=0-3", 206, "bytes 0-3/10", "0123", "units have no case"},
		{"/a.txt", "bytes=10-", 416, "bytes */10", "", "behind the end"},
		{"/a.txt", "bytes=-0", 416, "bytes */10", "", "nothing"},
		{"/a.txt", "bytes=20-30,40-", 416, "bytes */10", "", "none of them"},
		{"/a.txt", "bytes=3-2", 200, "", "0123456789", "backwards: not a range"},
		{"/a.txt", "lines=0-3", 200, "", "0123456789", "another unit"},
		{"/a.txt", "bytes", 200, "", "0123456789", ""},
		{"/a.txt", "bytes=x-y", 200, "", "0123456789", ""},
		{"/a.txt", "bytes=0-3\r\nRange: bytes=4-5", 200, "", "0123456789", "two fields"},
		{"/empty.txt", "bytes=0-3", 200, "", "", "an empty file has none"},
		{"/big.bin", "bytes=50000-", 206, "bytes 50000-99999/100000", Big[50000:], ""},
		{"/big.bin", "bytes=-1", 206, "bytes 99999-99999/100000", Big[99999:], ""},
	} {
		got := s.Request("GET "+c.path, []string{"Range: " + c.field}, "")
		if got.StatusCode != c.status || got.Header.Get("Content-Range") != c.contentRange ||
			c.status != 416 && got.Text != c.body {
			t.Errorf("%s %q: got %d %q %.40q (%s)", c.path, c.field, got.StatusCode,
				got.Header.Get("Content-Range"), got.Text, c.why)
		}
		switch c.status {
		case 416:
			if got.Header.Get("ETag") != "" {
				t.Errorf("%s %q: 416 with %v", c.path, c.field, got.Header)
			}
		case 206:
			if got.Header.Get("ETag") == "" || got.Header.Get("Accept-Ranges") != "bytes" ||
				got.ContentLength != int64(len(c.body)) || got.Header.Get("Content-Type") == "" {
				t.Errorf("%s %q: 206 with %v", c.path, c.field, got.Header)
			}
		}
	}
	if got := s.Request("HEAD /a.txt", []string{"Range: bytes=0-3"}, ""); got.StatusCode != 200 ||
		got.ContentLength != 10 {
		t.Errorf("HEAD: got %d, Content-Length %d: Range is for GET", got.StatusCode,
			got.ContentLength)
	}
}

func IfRange(t *testing.T, s *server.Server) {
	for _, c := range []struct {
		fields []string
		status int
		why    string
	}{
		{[]string{"If-Range: " + ETag}, 206, ""},
		{[]string{"If-Range: W/" + ETag}, 200, "strong comparison"},
		{[]string{`If-Range: "other"`}, 200, ""},
		{[]string{"If-Range: " + LastModified}, 206, ""},
		{[]string{"If-Range: Fri, 01 Mar 2024 12:00:01 GMT"}, 200, "later is another state too"},
		{[]string{"If-Range: Fri, 01 Mar 2024 11:59:59 GMT"}, 200, ""},
		{[]string{"If-Range: nonsense"}, 200, ""},
		{[]string{"If-Range: " + ETag, "If-Range: " + ETag}, 200, "twice"},
	} {
		got := s.Request("GET /a.txt", append([]string{"Range: bytes=0-3"}, c.fields...), "")
		if got.StatusCode != c.status {
			t.Errorf("%q: got %d, want %d (%s)", c.fields, got.StatusCode, c.status, c.why)
		}
	}
	if got := s.Request("GET /a.txt", []string{`If-Range: "other"`, "Range: bytes=50-"},
		""); got.StatusCode != 200 {
		t.Errorf("a range that is not followed cannot be wrong: %d", got.StatusCode)
	}
}

func SeveralRanges(t *testing.T, s *server.Server) {
	for _, c := range []struct {
		path, field, mediaType string
		parts                  []string // "first-last"
	}{
		{"/a.txt", "bytes=0-1,4-5", "text/plain; charset=utf-8", []string{"0-1", "4-5"}},
		{"/a.txt", "bytes=8-, 0-1", "text/plain; charset=utf-8", []string{"8-9", "0-1"}},
		{"/a.txt", "bytes=0-1,20-30,-1", "text/plain; charset=utf-8", []string{"0-1", "9-9"}},
		{"/big.bin", "bytes=0-39999,50000-89999", "application/octet-stream",
			[]string{"0-39999", "50000-89999"}},
	} {
		text, size := "0123456789", 10
		if c.path == "/big.bin" {
			text, size = Big, len(Big)
		}
		got := s.Request("GET "+c.path, []string{"Range: " + c.field}, "")
		mediaType, params, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
		if got.StatusCode != 206 || err != nil || mediaType != "multipart/byteranges" ||
			got.Header.Get("Content-Range") != "" {
			t.Errorf("%s: got %d %v", c.field, got.StatusCode, got.Header)
			continue
		}
		if got.ContentLength != int64(len(got.Text)) || got.Header.Get("ETag") == "" {
			t.Errorf("%s: Content-Length %d, body %d, %v", c.field, got.ContentLength,
				len(got.Text), got.Header)
		}
		r := multipart.NewReader(strings.NewReader(got.Text), params["boundary"])
		for _, part := range c.parts {
			p, err := r.NextPart()
			must.Do(t, err)
			body, err := io.ReadAll(p)
			must.Do(t, err)
			var first, last int
			fmt.Sscanf(part, "%d-%d", &first, &last)
			if p.Header.Get("Content-Range") != fmt.Sprintf("bytes %s/%d", part, size) ||
				p.Header.Get("Content-Type") != c.mediaType ||
				string(body) != text[first:last+1] {
				t.Errorf("%s: part %s: %v %.40q", c.field, part, p.Header, body)
			}
		}
		if _, err := r.NextPart(); err != io.EOF {
			t.Errorf("%s: one part more, or %v", c.field, err)
		}
	}
}

// What asks for more work than the whole file would be gets the whole file.
func TooManyRanges(t *testing.T, s *server.Server) {
	for _, field := range []string{
		"bytes=0-" + strings.Repeat(",0-", 500),
		"bytes=" + strings.TrimSuffix(strings.Repeat("0-9,", 100), ","),
	} {
		got := s.Request("GET /a.txt", []string{"Range: " + field}, "")
		if len(got.Text) > 10 ||
			got.StatusCode != 200 && got.StatusCode != 206 && got.StatusCode != 416 {
			t.Errorf("%.40s: got %d with %d bytes", field, got.StatusCode, len(got.Text))
		}
	}
}
