package files

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/server"
)

// A Path is a request, and what it must get.
type Path = struct {
	Line   string
	Status int
	Want   string // the body of a 200, the Location of a 301
	Why    string
}

// paths are of the whole tree.
var paths = []Path{
	{"GET /a.txt", 200, "0123456789", ""},
	{"GET /a.txt?query", 200, "0123456789", "a query means nothing to a file"},
	{"GET /", 200, "<h1>root</h1>", "the index file"},
	{"GET /index.html", 200, "<h1>root</h1>", "by its own name"},
	{"GET /sub/", 200, "<h1>sub</h1>", ""},
	{"GET /sub", 301, "/sub/",
		"a folder without its slash: relative links in it would go wrong"},
	{"GET /sub?x=1&y", 301, "/sub/?x=1&y", "the query is kept"},
	{"GET /sub?x=\xff\u00e4[]", 301, "/sub/?x=%FF%C3%A4%5B%5D",
		"but for what no address can have"},
	{"GET /a%20b", 301, "/a%20b/", "escaped again"},
	{"GET /with%5Cbackslash", 301, "/with%5Cbackslash/",
		"browsers take a backslash for a slash"},
	{"GET //sub", 301, "/sub/", "never a Location that names a server"},
	{"GET /%2Fsub", 301, "/%2Fsub/", ""},
	{"GET //evil.example/../sub", 301, "/sub/", ""},
	{"GET /noindex", 301, "/noindex/", "also if there is no index file"},
	{"GET /noindex/", 404, "", "folders are not listed"},
	{"GET /folderindex/", 404, "", "the index file is a folder"},
	{"GET /a.txt/", 404, "", "a file is no folder"},
	{"GET /a.txt/x", 404, "", ""},
	{"GET /nothing", 404, "", ""},
	{"GET /nothing/", 404, "", ""},
	{"GET /A.txt", 404, "", "names have case"},
	{"GET /empty.txt", 200, "", "an empty file"},
	{"GET /small.bin", 200, Big[:16<<10], "as long as is sent in one write"},
	{"GET /big.bin", 200, Big, "sendfile"},
	{"GET /a%20b/%C3%A9%3F.txt", 200, "odd", "decoded"},
	{"GET /sub/../a.txt", 200, "0123456789", "dot segments are resolved before"},
	{"GET /../a.txt", 400, "", "never above the root"},
	{"GET /%2e%2e/outside.txt", 400, "", ""},
	{"GET /sub/..%2f..%2foutside.txt", 400, "", ""},
	{"GET /a.txt%00.html", 400, "", "a zero byte would end the name for the kernel"},
	{"GET /link-file", 200, "0123456789", "links within the folder work"},
	{"GET /link-folder/page.html", 200, "<h1>page</h1>", ""},
	{"GET /link-folder", 301, "/link-folder/", ""},
	{"GET /noindex/link-up", 200, "<h1>page</h1>", "upwards too"},
	{"GET /link-out", 404, "", "a way out"},
	{"GET /link-out-folder/x.txt", 404, "", ""},
	{"GET /link-absolute", 404, "", "absolute links lead out, wherever they end"},
	{"GET /link-loop", 404, "", ""},
	{"GET /link-broken", 404, "", ""},
	{"GET /link-magic", 404, "", ""},
	{"GET /link-device", 404, "", ""},
	{"GET /fifo", 404, "", "does not wait for a writer"},
	{"GET /socket", 404, "", ""},
	{"GET /" + strings.Repeat("x", 300), 404, "", "longer than a name can be"},
	{"GET /" + strings.Repeat("x/", 3000), 404, "", "longer than a path can be"},
	{"GET /.hidden", 404, "", "dot files"},
	{"GET /%2ehidden", 404, "", "however they are written"},
	{"GET /.git/config", 404, "", "and what lies in hidden folders"},
	{"GET /.git", 404, "", "a 301 would tell that it is there"},
	{"GET /sub/.env", 404, "", ""},
	{"GET /.well-known/token", 200, "token", "RFC 8615"},
	{"GET /.well-known", 301, "/.well-known/", ""},
	{"GET /.well-known/.secret", 404, "", "hidden within it"},
	{"GET /.well-knownx/token", 404, "", "another name"},
	{"GET /sub/.well-known/token", 404, "", "at the top only"},
}

// Paths asks a server of the tree for these, or, if there are none, for all sorts of paths.
func Paths(t *testing.T, s *server.Server, these []Path) {
	if these == nil {
		these = paths
	}
	for _, c := range these {
		got := s.Request(c.Line, nil, "")
		body := got.Text
		if got.StatusCode == 301 {
			body = got.Header.Get("Location")
		}
		if got.StatusCode != c.Status || body != c.Want && c.Status < 400 {
			t.Errorf("%.60s: got %d %.60q, want %d %.60q (%s)", c.Line, got.StatusCode, body,
				c.Status, c.Want, c.Why)
		}
		if strings.Contains(got.Text, "secret") ||
			got.StatusCode >= 400 &&
				(got.Header.Get("ETag") != "" || got.Header.Get("Last-Modified") != "") {
			t.Errorf("%s: gives away %v %q", c.Line, got.Header, got.Text)
		}
	}
}

func Methods(t *testing.T, s *server.Server) {
	for _, c := range []struct {
		line   string
		status int
		length int64
		allow  string
	}{
		{"GET /a.txt", 200, 10, ""},
		{"HEAD /a.txt", 200, 10, ""},
		{"HEAD /big.bin", 200, 100_000, ""},
		{"HEAD /empty.txt", 200, 0, ""},
		{"HEAD /sub", 301, 0, ""},
		{"OPTIONS /a.txt", 204, -1, "GET, HEAD, OPTIONS"},
		{"POST /a.txt", 405, -1, "GET, HEAD, OPTIONS"},
		{"PUT /nothing", 405, -1, "GET, HEAD, OPTIONS"},
		{"DELETE /", 405, -1, "GET, HEAD, OPTIONS"},
		{"PURGE /a.txt", 405, -1, "GET, HEAD, OPTIONS"},
		{"PATCH /.git", 405, -1, "GET, HEAD, OPTIONS"},
	} {
		got := s.Request(c.line, nil, "")
		if got.StatusCode != c.status || got.Header.Get("Allow") != c.allow ||
			c.length >= 0 && got.ContentLength != c.length {
			t.Errorf("%s: got %d, Content-Length %d, Allow %q", c.line, got.StatusCode,
				got.ContentLength, got.Header.Get("Allow"))
		}
	}
	get, head := s.Request("GET /a.txt", nil, ""), s.Request("HEAD /a.txt", nil, "")
	get.Header.Del("Date")
	head.Header.Del("Date")
	if fmt.Sprint(get.Header) != fmt.Sprint(head.Header) {
		t.Errorf("HEAD has other fields than GET:\n%v\n%v", head.Header, get.Header)
	}
}
