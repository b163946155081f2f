package conn_test

import (
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
)

// opaque is content that is no File.
type opaque struct {
	*strings.Reader
	closed *atomic.Int32
}

func (o opaque) Close() error {
	o.closed.Add(1)
	return nil
}

// TestServeContent: the answers are those of net/http's ServeContent, for a file and for other
// content, and the content is closed.
func TestServeContent(t *testing.T) {
	const text = "0123456789abcdefghijklmnopqrstuvwxyz"
	changed := time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC)
	stamp := changed.Format(http.TimeFormat)
	path := filepath.Join(t.TempDir(), "x")
	must.Write(t, path, text)
	var opened, closed atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v7"`)
		http.ServeContent(w, r, "a.txt", changed, strings.NewReader(text))
	}))
	defer other.Close()
	rows := [][]string{ // fields of a request
		{},
		{"Range: bytes=0-"}, {"Range: bytes=3-5"}, {"Range: bytes=-4"}, {"Range: bytes=30-100"},
		{"Range: bytes=36-"}, {"Range: bytes=100-200"},
		{"Range: bytes=0-0,35-35"}, {"Range: bytes=0-4,10-14,100-"},
		{`If-None-Match: "v7"`}, {`If-None-Match: W/"v7"`}, {`If-None-Match: "v6", "v7"`},
		{"If-None-Match: *"}, {`If-None-Match: "v6"`},
		{`If-None-Match: "v6"`, "If-Modified-Since: " + stamp},
		{"If-Modified-Since: " + stamp}, {"If-Modified-Since: Mon, 02 Jan 2006 15:04:05 GMT"},
		{"If-Modified-Since: yesterday"},
		{`If-Match: "v7"`}, {`If-Match: W/"v7"`}, {`If-Match: "v6"`}, {"If-Match: *"},
		{"If-Unmodified-Since: " + stamp}, {"If-Unmodified-Since: Mon, 02 Jan 2006 15:04:05 GMT"},
		{"Range: bytes=3-5", `If-Range: "v7"`}, {"Range: bytes=3-5", `If-Range: "v6"`},
		{"Range: bytes=3-5", `If-Range: W/"v7"`},
		{"Range: bytes=3-5", "If-Range: " + stamp},
		{"Range: bytes=3-5", "If-Range: Mon, 02 Jan 2006 15:04:05 GMT"},
		{"Range: bytes=3-5", `If-None-Match: "v7"`}, {"Range: bytes=100-", `If-None-Match: "v7"`},
	}
	for name, content := range map[string]func() io.ReaderAt{
		"file": func() io.ReaderAt {
			f, err := os.Open(path)
			if err != nil {
				t.Error(err)
			}
			return f
		},
		"other": func() io.ReaderAt {
			opened.Add(1)
			return opaque{strings.NewReader(text), &closed}
		},
	} {
		t.Run(name, func(t *testing.T) {
			modes.Run(t, func(t *testing.T, m mode) {
				s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
					resp.Header().Set("ETag", `"v7"`)
					return resp.ServeContent("a.txt", changed, content(), int64(len(text)))
				}})
				// A field that is not valid is ignored (RFC 9110 section 14.2); net/http answers 416.
				for _, field := range []string{"Range: bytes=5-3", "Range: lines=1-2", "Range: bytes=x"} {
					if got := asked(t, "http://"+s.Addr+"/", "GET", []string{field}); !strings.HasSuffix(got,
						" "+text+"\n") {
						t.Errorf("%s: %s", field, got)
					}
				}
				for _, method := range []string{"GET", "HEAD"} {
					for _, fields := range rows {
						if method == "HEAD" && strings.HasPrefix(strings.Join(fields, ""), "Range") {
							continue // which has no meaning for HEAD (RFC 9110 section 14.2); net/http answers it
						}
						got, want := asked(t, "http://"+s.Addr+"/", method, fields), asked(t, other.URL, method,
							fields)
						if strings.HasPrefix(want, "3") || strings.HasPrefix(want, "4") { // their other fields differ
							want, _, _ = strings.Cut(want, "\n")
							got, _, _ = strings.Cut(got, "\n")
						}
						if got != want {
							t.Errorf("%s %q:\n%s\nwant:\n%s", method, fields, got, want)
						}
					}
				}
			}, plain, direct)
		})
	}
	if opened.Load() == 0 || opened.Load() != closed.Load() {
		t.Errorf("%d opened, %d closed", opened.Load(), closed.Load())
	}
}

// asked returns what matters of an answer.
func asked(t *testing.T, url, method string, fields []string) string {
	t.Helper()
	req := must.Get(http.NewRequest(method, url, nil))(t)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		req.Header.Set(name, value)
	}
	resp, err := (&http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	h := resp.Header
	kind, boundary, _ := strings.Cut(h.Get("Content-Type"), "boundary=")
	var body strings.Builder
	if boundary != "" && method == "GET" {
		for r := multipart.NewReader(resp.Body, boundary); ; {
			part, err := r.NextPart()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(part)
			fmt.Fprintln(&body, part.Header.Get("Content-Type"), part.Header.Get("Content-Range"),
				string(text), err)
		}
	} else if _, err := io.Copy(&body, resp.Body); err != nil {
		t.Fatal(err)
	}
	length := resp.ContentLength
	if boundary != "" {
		length = -1 // depends on the boundary's
	}
	return fmt.Sprintln(resp.StatusCode, h.Get("Content-Range")) +
		fmt.Sprintln(kind, length, h.Get("ETag"), h.Get("Last-Modified"), h.Get("Accept-Ranges"),
			body.String())
}

// TestPrecondition: for what a handler makes or changes itself.
func TestPrecondition(t *testing.T) {
	changed := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	modes.Run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			q, tag, at := req.Query(), "", time.Time{}
			if q.Has("tag") {
				tag = q.Get("tag")
			}
			switch q.Get("at") {
			case "then":
				at = changed
			case "tomorrow":
				at = time.Now().Add(24 * time.Hour)
			}
			if status := resp.Precondition(tag, at); status != 0 {
				return status
			}
			return resp.Text(200, "new")
		}})
		for _, row := range []struct {
			method, query string
			field         string
			status        int
			etag, dated   string
		}{
			{"GET", `tag="a"`, "", 200, `"a"`, ""},
			{"GET", `tag=W/"a"`, `If-None-Match: "a"`, 304, `W/"a"`, ""},
			{"GET", `tag="a"`, `If-None-Match: "b"`, 200, `"a"`, ""},
			{"GET", "tag=a", "If-None-Match: a", 200, "", ""}, // no entity tag
			{"GET", "at=then", "If-Modified-Since: Tue, 03 Feb 2026 04:05:06 GMT", 304, "",
				"Tue, 03 Feb 2026 04:05:06 GMT"},
			{"GET", "at=then", "If-Modified-Since: Tue, 03 Feb 2026 04:05:05 GMT", 200, "",
				"Tue, 03 Feb 2026 04:05:06 GMT"},
			{"GET", "", "If-Modified-Since: Tue, 03 Feb 2026 04:05:06 GMT", 200, "", ""},
			{"GET", "", "If-None-Match: *", 200, "", ""},
			{"GET", "", "If-Match: *", 412, "", ""},
			{"PUT", `tag="a"`, `If-Match: "a"`, 200, "", ""},
			{"PUT", `tag="a"`, `If-Match: "b"`, 412, "", ""},
			{"PUT", `tag=W/"a"`, `If-Match: W/"a"`, 412, "", ""},
			{"PUT", "", "If-Match: *", 412, "", ""},
			{"PUT", `tag="a"`, "If-None-Match: *", 412, "", ""}, // only if there is nothing yet
			{"PUT", "", "If-None-Match: *", 200, "", ""},
			{"PUT", "at=then", "If-None-Match: *", 412, "", ""},
			{"PUT", "at=then", "If-Match: *", 200, "", ""},
			{"PUT", "at=then", `If-Match: "a"`, 412, "", ""},
			{"PUT", "at=then", "If-Modified-Since: Tue, 03 Feb 2026 04:05:06 GMT", 200, "", ""},
			{"PUT", "at=then", "If-Unmodified-Since: Tue, 03 Feb 2026 04:05:06 GMT", 200, "", ""},
			{"PUT", "at=then", "If-Unmodified-Since: Tue, 03 Feb 2026 04:05:05 GMT", 412, "", ""},
		} {
			req, err := http.NewRequest(row.method,
				"http://"+s.Addr+"/?"+strings.ReplaceAll(row.query, `"`, "%22"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if name, value, ok := strings.Cut(row.field, ": "); ok {
				req.Header.Set(name, value)
			}
			resp := must.Get(http.DefaultTransport.RoundTrip(req))(t)
			resp.Body.Close()
			if resp.StatusCode != row.status || resp.Header.Get("ETag") != row.etag ||
				resp.Header.Get("Last-Modified") != row.dated {
				t.Errorf("%s %s, %s: %d, %q, %q", row.method, row.query, row.field, resp.StatusCode,
					resp.Header.Get("ETag"), resp.Header.Get("Last-Modified"))
			}
		}
		// A state of the future is that of now.
		resp := must.Get(http.Get("http://" + s.Addr + "/?at=tomorrow"))(t)
		resp.Body.Close()
		at, err := http.ParseTime(resp.Header.Get("Last-Modified"))
		if err != nil || at.After(time.Now()) {
			t.Error(at, err)
		}
	}, plain, direct)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// TestServeContentOfNoSize: a size that is none is the program's mistake.
func TestServeContentOfNoSize(t *testing.T) {
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		return resp.ServeContent("a.txt", time.Time{}, strings.NewReader("0123456789"), -1)
	}})
	if a := s.Request("GET /", nil, ""); a.StatusCode != 500 ||
		!strings.Contains(s.Log.String(), "negative size") {
		t.Errorf("%s\n%s", a.Status, s.Log)
	}
}

// TestWeakRange: a weak tag does not tell whether two parts fit together (RFC 9110 section 13.1.5).
// An error that takes the place of the content has none of its fields.
func TestWeakRange(t *testing.T) {
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		resp.Header().Set("ETag", `W/"v7"`)
		resp.Header().Set("Content-Encoding", "gzip")
		resp.Header().Set("Cache-Control", "max-age=1000")
		return resp.ServeContent("a.txt", time.Time{}, strings.NewReader("0123456789"), 10)
	}})
	for field, want := range map[string]int{"If-Range: W/\"v7\"": 200, "If-Range:": 200, "X: y": 206} {
		if a := s.Request("GET /", []string{"Range: bytes=3-5", field}, ""); a.StatusCode != want {
			t.Errorf("%s: %s", field, a.Status)
		}
	}
	for field, want := range map[string]int{"Range: bytes=100-": 416, `If-Match: "v6"`: 412} {
		a := s.Request("GET /", []string{field}, "")
		for _, name := range []string{"ETag", "Content-Encoding", "Cache-Control", "Accept-Ranges"} {
			if a.StatusCode != want || a.Header.Get(name) != "" {
				t.Errorf("%s: %s, %s: %s", field, a.Status, name, a.Header.Get(name))
			}
		}
	}
}
