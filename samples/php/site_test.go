package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// Every page is what it says, and no path leads to the source of a script or out of the public
// folder.
func TestPages(t *testing.T) {
	s := run(t)
	const page, css, js = "text/html; charset=utf-8", "text/css; charset=utf-8",
		"text/javascript; charset=utf-8"
	tests := []struct {
		path   string
		status int
		kind   string
		part   string // of the body
	}{
		{"/", 200, page, "<h1>PHP on lwango</h1>"},
		{"/index.php", 200, page, "<h1>PHP on lwango</h1>"},
		{"/?x=y", 200, page, `<a href="/" aria-current="page">`},
		{"/form.php", 200, page, `<form method="post">`},
		{"/upload.php", 200, page, `enctype="multipart/form-data"`},
		{"/clock.php", 200, page, `<script src="/clock.js" defer>`},
		{"/info.php", 200, page, "FPM/FastCGI"},
		{"/hello/world", 200, page, "<h1>Hello, world!</h1>"},
		{"/hello/Zo%C3%AB%20%3Cb%3E", 200, page, "<h1>Hello, Zoë &lt;b&gt;!</h1>"},
		{"/hello/%FF", 200, page, "<h1>Hello, \uFFFD!</h1>"},
		{"/hello/", 404, page, "<h1>Not found</h1>"},
		{"/no/%3Cscript%3E", 404, page, "knows no <code>/no/&lt;script&gt;</code>"},
		{"/error.php", 500, page, "<h1>Something went wrong</h1>"},

		{"/style.css", 200, css, source(t, "style.css")},
		{"/upload.js", 200, js, source(t, "upload.js")},
		{"/clock.js", 200, js, source(t, "clock.js")},
		{"/icon.svg", 200, "image/svg+xml", source(t, "icon.svg")},

		{"/page.php", 404, page, ""},
		{"/../page.php", 400, page, ""},
		{"/%2e%2e/page.php", 400, page, ""},
		{"/style.css/x.php", 404, page, ""},
		{"/FORM.PHP", 404, page, ""},
		{"/form.php.", 404, page, ""},
		{"/form.php%20", 404, page, ""},
		{"/form.php~", 404, page, ""},
		{"/lwango.conf", 404, page, ""},
		{"/../../lwango.conf", 400, page, ""},
		{"/../../php-fpm.conf", 400, page, ""},
		{"/form.php%00", 400, page, ""},
	}
	for _, test := range tests {
		a := get(t, s.url+test.path)
		if kind := strings.Replace(a.header.Get("Content-Type"), "UTF-8", "utf-8",
			1); a.status != test.status || kind != test.kind {
			t.Errorf("%s: got %d %s, want %d %s", test.path, a.status, kind, test.status, test.kind)
		}
		if !strings.Contains(a.body, test.part) {
			t.Errorf("%s: %q is not in %s", test.path, test.part, a.body)
		}
		for _, bad := range []string{"<?php", "strict_types", "script_path", "pm.max_children"} {
			if strings.Contains(a.body, bad) && test.path != "/info.php" {
				t.Errorf("%s: has %q: %s", test.path, bad, a.body)
			}
		}
		if a.header.Get("X-Content-Type-Options") != "nosniff" ||
			a.header.Get("X-Powered-By") != "" {
			t.Errorf("%s: %v", test.path, a.header)
		}
	}
}

// source is a file of the public folder.
func source(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile("site/public/" + name))(t)
	return string(text)
}

// The client learns only that there was an exception; the log has the rest, in one line with the
// request.
func TestError(t *testing.T) {
	s := run(t)
	a := get(t, s.url+"/error.php")
	if a.status != 500 || strings.Contains(a.body, "deliberate") ||
		strings.Contains(a.body, s.tmp) {
		t.Errorf("got %d: %s", a.status, a.body)
	}
	s.Logged(t,
		`level=WARN .*request_id=[0-9a-f]{32} script=/error\.php message=".*Uncaught RuntimeException: `+
			`A deliberate error\. \| Of two lines\. in .*/site/public/error\.php:\d+ .*"`)
}

// What is sent comes back as text, whatever it is.
func TestForm(t *testing.T) {
	s := run(t)
	const name, text = `O'Brien "x" <i>`, "<script>alert(1)</script>\r\n</textarea>& \xff end"
	sent := url.Values{"name": {name}, "text": {text}}.Encode()
	post := must.Get(http.NewRequestWithContext(t.Context(), "POST", s.url+"/form.php",
		strings.NewReader(sent)))(t)
	post.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for method, a := range map[string]answer{"POST": do(t, post),
		"GET": get(t, s.url+"/form.php?"+sent)} {
		shown := strings.ToValidUTF8(text, "\uFFFD")
		escaped := strings.NewReplacer("&#39;", "&#039;", "&#34;",
			"&quot;").Replace(html.EscapeString(shown))
		for _, want := range []string{
			method + " from <strong>O&#039;Brien &quot;x&quot; &lt;i&gt;</strong>",
			fmt.Sprintf("%d bytes", len(text)),
			"<pre>" + escaped + "</pre>",
			`rows="5">` + escaped + "</textarea>",
			`value="O&#039;Brien &quot;x&quot; &lt;i&gt;"`,
		} {
			if !strings.Contains(a.body, want) {
				t.Errorf("%s: %q is not in %s", method, want, a.body)
			}
		}
		if a.status != 200 || strings.Contains(a.body, "<script>") ||
			strings.Contains(a.body, "<i>") {
			t.Errorf("%s: got %d: %s", method, a.status, a.body)
		}
	}
	if a := get(t, s.url+"/form.php?name[]=x&text[a][b]=y"); a.status != 200 ||
		!strings.Contains(a.body, "<strong></strong>, 0 bytes") {
		t.Errorf("lists: got %d: %s", a.status, a.body)
	}
}

// upload is a form with a file of n random bytes, and their digest.
func upload(t *testing.T, n int, name string) (body []byte, kind, digest string) {
	t.Helper()
	file := make([]byte, n)
	rand.Read(file)
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part := must.Get(w.CreateFormFile("file", name))(t)
	part.Write(file) // to memory, as all of it
	w.Close()
	sum := sha256.Sum256(file)
	return b.Bytes(), w.FormDataContentType(), hex.EncodeToString(sum[:])
}

func (s *server) upload(t *testing.T, accept, kind string, body io.Reader) answer {
	t.Helper()
	return do(t, s.uploading(t, accept, kind, body))
}

func (s *server) uploading(t *testing.T, accept, kind string, body io.Reader) *http.Request {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), "POST", s.url+"/upload.php", body))(t)
	req.Header.Set("Accept", accept)
	req.Header.Set("Content-Type", kind)
	// With this, an answer to the head alone is not lost in a reset.
	req.Header.Set("Expect", "100-continue")
	return req
}

// received is the JSON of upload.php.
type received struct {
	Name, SHA256, Error string
	Size                int
}

func (a answer) received(t *testing.T) (r received) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &r); err != nil ||
		a.header.Get("Content-Type") != "application/json" {
		t.Errorf("%v: %d %v: %s", err, a.status, a.header, a.body)
	}
	return r
}

func TestUpload(t *testing.T) {
	s := run(t)
	const size = 5 << 20
	body, kind, digest := upload(t, size, `<b>"ü.bin`)
	page := s.upload(t, "text/html", kind, bytes.NewReader(body))
	for _, want := range []string{
		`<dd data-of="name">&lt;b&gt;&quot;ü.bin</dd>`,
		fmt.Sprintf(`<span data-of="size">%d</span>`, size),
		`<code data-of="sha256">` + digest + `</code>`,
		`<p id="error" hidden>`,
	} {
		if page.status != 200 || !strings.Contains(page.body, want) {
			t.Errorf("page: %d: %q is not in %s", page.status, want, page.body)
		}
	}
	want := received{Name: `<b>"ü.bin`, Size: size, SHA256: digest}
	for what, reader := range map[string]io.Reader{
		"length": bytes.NewReader(body),
		// This hides the length from net/http.
		"chunked": struct{ io.Reader }{bytes.NewReader(body)},
	} {
		a := s.upload(t, "application/json", kind, reader)
		if got := a.received(t); a.status != 200 || got != want {
			t.Errorf("%s: got %d %+v, want %+v", what, a.status, got, want)
		}
	}
	for _, size := range []int{0, 1, 16 << 20} {
		body, kind, digest := upload(t, size, "x")
		a := s.upload(t, "application/json", kind, bytes.NewReader(body))
		if got := a.received(t); a.status != 200 || got.Size != size || got.SHA256 != digest {
			t.Errorf("%d bytes: got %d %+v, want %s", size, a.status, got, digest)
		}
	}
}

// Whatever is wrong with an upload, the client is told what.
func TestBadUploads(t *testing.T) {
	s := run(t)
	const tooLarge = "The file is too large: at most 16 MiB will do."
	file := func(n int) (string, []byte) {
		body, kind, _ := upload(t, n, "x")
		return kind, body
	}
	list, listKind, _ := upload(t, 1, "x")
	list = bytes.Replace(list, []byte(`name="file"`), []byte(`name="file[]"`), 1)
	none, noneKind, _ := upload(t, 0, "x")
	none = bytes.Replace(none, []byte(`filename="x"`), []byte(`filename=""`), 1)
	cut, cutKind, _ := upload(t, 10000, "x")
	tests := map[string]struct {
		status int
		error  string
		kind   string
		body   []byte
	}{
		"no form":        {400, "One file is expected", "text/plain", []byte("x")},
		"several":        {400, "One file is expected", listKind, list},
		"none chosen":    {400, "No file was chosen.", noneKind, none},
		"cut":            {400, "The file has not come to its end.", cutKind, cut[:5000]},
		"over the file":  {413, tooLarge, "", nil},
		"over the body":  {413, tooLarge, "", nil},
		"over all there": {413, "", "", nil},
	}
	for what, n := range map[string]int{"over the file": 16<<20 + 1, "over the body": 20 << 20,
		"over all there": 33 << 20} {
		test := tests[what]
		test.kind, test.body = file(n)
		tests[what] = test
	}
	for what, test := range tests {
		a := s.upload(t, "application/json", test.kind, bytes.NewReader(test.body))
		page := s.upload(t, "text/html", test.kind, bytes.NewReader(test.body))
		if a.status != test.status || page.status != test.status {
			t.Errorf("%s: got %d, %d, want %d", what, a.status, page.status, test.status)
		}
		if test.error == "" { // lwango's own answer, which upload.js replaces by a text
			if !strings.Contains(page.body, "413 Request Entity Too Large") {
				t.Errorf("%s: got %s", what, page.body)
			}
			continue
		}
		if got := a.received(t); !strings.Contains(got.Error, test.error) {
			t.Errorf("%s: got %q, want %q", what, got.Error, test.error)
		}
		if !strings.Contains(page.body, `<p id="error">`+test.error) {
			t.Errorf("%s: %q is not in %s", what, test.error, page.body)
		}
	}
	uploads := s.folder(t) + "/tmp"
	wait.Until(t, "PHP removes what was uploaded", func() bool { // after its answer
		entries := must.Get(os.ReadDir(uploads))(t)
		return len(entries) == 0
	})
}

// folder is where the sample has its files.
func (s *server) folder(t *testing.T) string {
	t.Helper()
	left := s.left(t)
	if len(left) != 1 {
		t.Fatalf("there should be one folder: %v", left)
	}
	return s.tmp + "/" + left[0]
}

// clock is a stream of events.
type clock struct {
	body  io.Closer
	lines *bufio.Scanner
}

type event struct {
	ID      string `json:"-"`
	Time    string
	Process int
}

// clock opens one. It ends with the test, or earlier.
func (s *server) clock(t *testing.T, last string) *clock {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), "GET", s.url+"/events.php", nil))(t)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp := must.Get(client.Do(req))(t)
	t.Cleanup(func() { resp.Body.Close() })
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != 200 ||
		!strings.HasPrefix(kind, "text/event-stream") {
		t.Fatalf("got %s, %s", resp.Status, kind)
	}
	return &clock{resp.Body, bufio.NewScanner(resp.Body)}
}

// next waits for the next event.
func (c *clock) next(t *testing.T) (e event) {
	t.Helper()
	for c.lines.Scan() {
		name, value, _ := strings.Cut(c.lines.Text(), ": ")
		switch name {
		case "id":
			e.ID = value
		case "data":
			must.Do(t, json.Unmarshal([]byte(value), &e))
		case "":
			if e.ID != "" {
				return e
			}
		}
	}
	t.Fatalf("no event: %v", c.lines.Err())
	return e
}

// Events arrive as they happen: the stream lasts a minute, and the client waits for less.
func TestClock(t *testing.T) {
	s := run(t)
	c := s.clock(t, "")
	first := c.next(t)
	if first.ID != "1" || first.Time == "" || first.Process == 0 {
		t.Errorf("got %+v", first)
	}
	for _, id := range []string{"2", "3"} {
		if e := c.next(t); e.ID != id || e.Process != first.Process ||
			e.Time < first.Time && first.Time < "23:59" {
			t.Errorf("got %+v, want %s of %+v", e, id, first)
		}
	}
	for last, id := range map[string]string{"41": "42", "x": "1", "-7": "1"} {
		if e := s.clock(t, last).next(t); e.ID != id {
			t.Errorf("behind %s: got %s, want %s", last, e.ID, id)
		}
	}
}

// Clocks can occupy all processes. When their clients leave, others are served again.
func TestClocksEnd(t *testing.T) {
	s := run(t)
	const all = 8 // pm.max_children
	var clocks []*clock
	processes := map[int]bool{}
	for range all {
		c := s.clock(t, "")
		clocks = append(clocks, c)
		processes[c.next(t).Process] = true
	}
	if len(processes) != all {
		t.Errorf("%d processes: %v", len(processes), processes)
	}
	if got := get(t, s.url+"/style.css").status; got != 200 {
		t.Errorf("a file: %d", got) // it takes no process
	}
	for _, c := range clocks {
		c.body.Close()
	}
	wait.Until(t, "a process is free", func() bool { return get(t, s.url+"/").status == 200 })
}
