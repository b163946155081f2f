package servefiles_test

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/compression"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

func TestConditions(t *testing.T) {
	const (
		earlier = "Fri, 01 Mar 2024 11:59:59 GMT"
		later   = "Fri, 01 Mar 2024 12:00:01 GMT"
		other   = `"other"`
	)
	s := start(t, modes.Plain, tree(t), "/", nil)
	for _, c := range []struct {
		fields []string
		status int
		why    string
	}{
		{[]string{"If-None-Match: " + etag}, 304, ""},
		{[]string{"If-None-Match: W/" + etag}, 304, "weak comparison"},
		{[]string{"If-None-Match: " + other + ", " + etag}, 304, "one of a list"},
		{[]string{"If-None-Match: " + other, "if-none-match: " + etag}, 304,
			"a list in two fields"},
		{[]string{"If-None-Match: *"}, 304, "anything"},
		{[]string{"If-None-Match: " + other}, 200, ""},
		{[]string{"If-Modified-Since: " + lastModified}, 304, ""},
		{[]string{"If-Modified-Since: " + later}, 304, ""},
		{[]string{"If-Modified-Since: " + earlier}, 200, ""},
		{[]string{"If-Modified-Since: Friday, 01-Mar-24 12:00:00 GMT"}, 304,
			"the old forms of dates"},
		{[]string{"If-Modified-Since: Fri Mar  1 12:00:00 2024"}, 304, ""},
		{[]string{"If-Modified-Since: yesterday"}, 200, "no date"},
		{[]string{"If-Modified-Since: " + lastModified, "If-Modified-Since: " + lastModified}, 200,
			"twice"},
		{[]string{"If-None-Match: " + other, "If-Modified-Since: " + later}, 200,
			"the tag decides, the date is not looked at"},
		{[]string{"If-None-Match: " + etag, "If-Modified-Since: " + earlier}, 304, ""},
		{[]string{"If-Match: " + etag}, 200, ""},
		{[]string{"If-Match: *"}, 200, ""},
		{[]string{"If-Match: " + other + " ," + etag}, 200, ""},
		{[]string{"If-Match: W/" + etag}, 412, "strong comparison"},
		{[]string{"If-Match: " + other}, 412, ""},
		{[]string{"If-Unmodified-Since: " + lastModified}, 200, ""},
		{[]string{"If-Unmodified-Since: " + later}, 200, ""},
		{[]string{"If-Unmodified-Since: " + earlier}, 412, ""},
		{[]string{"If-Unmodified-Since: never"}, 200, "no date"},
		{[]string{"If-Match: " + etag, "If-Unmodified-Since: " + earlier}, 200, "the tag decides"},
		{[]string{"If-Match: " + other, "If-None-Match: " + etag}, 412, "If-Match comes first"},
		{[]string{"If-Match: " + etag, "If-None-Match: " + etag}, 304, "then If-None-Match"},
		{[]string{"If-Unmodified-Since: " + earlier, "If-Modified-Since: " + later}, 412, ""},
		{[]string{"If-None-Match: " + etag, "Range: bytes=0-1"}, 304, "before Range"},
		{[]string{"If-Match: " + other, "Range: bytes=0-1"}, 412, ""},
		{[]string{"If-Match: " + etag, "Range: bytes=0-1"}, 206, ""},
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
			if status == 304 && (got.Header.Get("ETag") != etag ||
				got.Header.Get("Last-Modified") != lastModified || got.Text != "") {
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

func TestSingleRange(t *testing.T) {
	root := tree(t)
	s := start(t, modes.Plain, root, "/", nil)
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
		{"/big.bin", "bytes=50000-", 206, "bytes 50000-99999/100000", big[50000:], ""},
		{"/big.bin", "bytes=-1", 206, "bytes 99999-99999/100000", big[99999:], ""},
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

func TestIfRange(t *testing.T) {
	s := start(t, modes.Plain, tree(t), "/", nil)
	for _, c := range []struct {
		fields []string
		status int
		why    string
	}{
		{[]string{"If-Range: " + etag}, 206, ""},
		{[]string{"If-Range: W/" + etag}, 200, "strong comparison"},
		{[]string{`If-Range: "other"`}, 200, ""},
		{[]string{"If-Range: " + lastModified}, 206, ""},
		{[]string{"If-Range: Fri, 01 Mar 2024 12:00:01 GMT"}, 200, "later is another state too"},
		{[]string{"If-Range: Fri, 01 Mar 2024 11:59:59 GMT"}, 200, ""},
		{[]string{"If-Range: nonsense"}, 200, ""},
		{[]string{"If-Range: " + etag, "If-Range: " + etag}, 200, "twice"},
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

// TestIfRangeOfAFreshFile: a date from the second of the answer says too little, as the file may
// change once more within it.
func TestIfRangeOfAFreshFile(t *testing.T) {
	root := tree(t)
	s := start(t, modes.Plain, root, "/", nil)
	for _, ahead := range []time.Duration{0, time.Hour} {
		fresh := time.Now().Add(ahead)
		must.Do(t, os.Chtimes(filepath.Join(root, "a.txt"), fresh, fresh))
		date := s.Request("GET /a.txt", nil, "").Header.Get("Last-Modified")
		got := s.Request("GET /a.txt", []string{"Range: bytes=0-3", "If-Range: " + date}, "")
		want := 200
		if ahead == 0 && got.Header.Get("Date") != date {
			want = 206 // the second is over
		}
		if got.StatusCode != want {
			t.Errorf("If-Range: %s, at %s: got %d, want %d", date, got.Header.Get("Date"),
				got.StatusCode, want)
		}
	}
}

// A date says nothing of the coding of the part that the client has.
func TestIfRangeOfWhatIsCompressed(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a.css", "a.gif"} {
		must.Do(t, os.WriteFile(filepath.Join(root, name), []byte(text(5000, 0)), 0o644))
		must.Do(t, os.Chtimes(filepath.Join(root, name), modified, modified))
	}
	must.Do(t, os.WriteFile(filepath.Join(root, "a.css.br"), []byte("a sibling"), 0o644))
	must.Do(t, os.Chtimes(filepath.Join(root, "a.css.br"), modified, modified))
	s := startEncoding(t, modes.Direct, root, policy(t, 1<<20), nil)
	tag := s.Request("GET /a.css", nil, "").Header.Get("ETag")
	sibling := s.Request("GET /a.css", []string{"Accept-Encoding: br"}, "").Header.Get("ETag")
	for _, c := range []struct {
		name, accept, value string
		status              int
		why                 string
	}{
		{"a.css", "gzip", lastModified, 200, "the part may be of the gzipped file"},
		{"a.css", "br", lastModified, 200, ""},
		{"a.css", "", lastModified, 200, "the client may have asked otherwise before"},
		{"a.gif", "gzip", lastModified, 206, "there is one form of it"},
		{"a.css", "gzip", tag, 206, "which is that of the file as it is"},
		{"a.css", "br", tag, 200, "another form"},
		{"a.css", "br", sibling, 206, ""},
		{"a.css", "gzip", sibling, 200, ""},
		{"a.css", "gzip", "W/" + tag, 200, "strong comparison"},
	} {
		a := s.Request("GET /"+c.name, []string{"Range: bytes=0-3", "If-Range: " + c.value,
			"Accept-Encoding: " + c.accept}, "")
		vary := ""
		if c.name == "a.css" {
			vary = "Accept-Encoding"
		}
		if a.StatusCode != c.status || a.Header.Get("Vary") != vary {
			t.Errorf("%s, %q, If-Range: %s: %s, %v, want %d: %s", c.name, c.accept, c.value, a.Status,
				a.Header, c.status, c.why)
		}
	}
}

// Several ranges are of the file as it is, also where the client accepts the file beside it: a body
// with parts of that would have its Content-Encoding, and nobody has encoded that body.
func TestSeveralRangesOfSibling(t *testing.T) {
	root := t.TempDir()
	for name, body := range map[string]string{"a.css": "the file" + text(5000, 0) + "is",
		"a.css.br": "the other one"} {
		must.Do(t, os.WriteFile(filepath.Join(root, name), []byte(body), 0o600))
		must.Do(t, os.Chtimes(filepath.Join(root, name), modified, modified))
	}
	s := startEncoding(t, modes.Direct, root, policy(t, 1<<20), nil)
	for _, c := range []struct{ ranges, coding, part string }{
		{"bytes=0-2", "br", "the"}, {"bytes=0-2,4-7", "", "file"}, {"bytes=0-2, -2", "", "is"},
	} {
		a := s.Request("GET /a.css", []string{"Accept-Encoding: br", "Range: " + c.ranges}, "")
		if a.StatusCode != 206 || a.Header.Get("Content-Encoding") != c.coding ||
			!strings.Contains(a.Text, c.part) || a.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %s, %v, %q", c.ranges, a.Status, a.Header, a.Text)
		}
	}
}

// TestIfRangeOfAnotherType: whether a file is compressed depends on the type that its handler has
// set.
func TestIfRangeOfAnotherType(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a.css", "a.gif"} {
		must.Do(t, os.WriteFile(filepath.Join(root, name), []byte(text(5000, 0)), 0o644))
		must.Do(t, os.Chtimes(filepath.Join(root, name), modified, modified))
	}
	p := policy(t, 0)
	sender, err := servefiles.NewSender(servefiles.Settings{Path: root},
		handlers.Env{Server: around.In(around.Context{Compression: p})})
	must.Do(t, err)
	s := module.Start(t, modes.Direct, "/", compression.Middleware(p)(
		func(req *conn.Request, resp *conn.Response) int {
			if as := req.RawQuery(); as != "" {
				resp.Header().Set("Content-Type", as)
			}
			status, _ := sender.Send(req, resp, req.Path()[1:], 200)
			return status
		}))
	for target, want := range map[string]int{"/a.css": 200, "/a.gif": 206, "/a.css?image/gif": 206,
		"/a.gif?text/css": 200} {
		a := s.Request("GET "+target, []string{"Range: bytes=0-3", "If-Range: " + lastModified}, "")
		if a.StatusCode != want {
			t.Errorf("%s: %s, want %d", target, a.Status, want)
		}
	}
}

// TestSeveralRangesOfAnotherType: the type that a handler has set is that of the parts, too.
func TestSeveralRangesOfAnotherType(t *testing.T) {
	settings := servefiles.Settings{Path: tree(t)}
	sender, err := servefiles.NewSender(settings, handlers.Env{})
	must.Do(t, err)
	s := module.Start(t, modes.Plain, "/", func(req *conn.Request, resp *conn.Response) int {
		resp.Header().Set("Content-Type", "image/png")
		status, _ := sender.Send(req, resp, "a.txt", 200)
		return status
	})
	got := s.Request("GET /", []string{"Range: bytes=0-1,4-5"}, "")
	if got.StatusCode != 206 || strings.Count(got.Text, "Content-Type: image/png\r\n") != 2 ||
		strings.Contains(got.Text, "text/plain") {
		t.Errorf("got %d %q", got.StatusCode, got.Text)
	}
}

func TestSeveralRanges(t *testing.T) {
	root := tree(t)
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := start(t, m, root, "/", nil)
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
				text, size = big, len(big)
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
	}, modes.Plain, modes.Direct)
}

// What asks for more work than the whole file would be gets the whole file.
func TestTooManyRanges(t *testing.T) {
	s := start(t, modes.Plain, tree(t), "/", nil)
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
