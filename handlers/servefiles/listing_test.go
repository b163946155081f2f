package servefiles_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

// unasked are names that no request can have.
var unasked = []string{"new\nline", "a\tb", "\x7f", "\x01"}

func listing(s *servefiles.Settings) { s.Listing = true }

// odd are names that a page or an address could take for something else.
var odd = []string{"<b>&\"'.txt", "a:b", "//c"[2:], "%41", "?q#f", "\xff\xfe.bin", " space ",
	"é", "+", "back\\slash", "javascript:alert(1)"}

var hrefs = regexp.MustCompile(`<td><a href="\./([^"]*)">`)

// listed returns the names of a listing's entries in order, from their addresses.
func listed(t testing.TB, page string) (all []string) {
	t.Helper()
	for _, m := range hrefs.FindAllStringSubmatch(page, -1) {
		name, err := url.PathUnescape(m[1])
		must.Do(t, err)
		all = append(all, name)
	}
	return all
}

func TestListing(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		root := tree(t)
		for _, name := range slices.Concat(odd, unasked) {
			must.Do(t, os.WriteFile(filepath.Join(root, "noindex", name), []byte(name), 0o644))
		}
		must.Do(t, os.Mkdir(filepath.Join(root, "noindex/folder"), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(root, "noindex/.hidden"), nil, 0o644))
		must.Do(t, os.WriteFile(filepath.Join(root, "noindex/a.php"), nil, 0o644))
		must.Do(t, os.WriteFile(filepath.Join(root, "noindex/README.md"), []byte("<script>\n"), 0o644))
		must.Do(t, unix.Mkfifo(filepath.Join(root, "noindex/fifo"), 0o644))
		must.Do(t, os.Symlink("../../outside.txt", filepath.Join(root, "noindex/out")))
		h, err := build(t, handlers.Env{Process: around.In(around.Context{Scripts: []string{".php"}})},
			func(s *servefiles.Settings) {
				s.Path, s.Listing, s.CacheControl = root, true, "immutable"
			})
		must.Do(t, err)
		s := module.Start(t, m, "/files", h)

		got := s.Request("GET /files/noindex/", nil, "")
		names := listed(t, got.Text)
		want := slices.Concat(odd, []string{"README.md", "link-up", "x.txt"})
		slices.Sort(want)
		want = append([]string{"folder/"}, want...)
		if got.StatusCode != 200 || !slices.Equal(names, want) {
			t.Errorf("%d, got %q\nwant %q", got.StatusCode, names, want)
		}
		for name, value := range map[string]string{"Content-Type": "text/html; charset=utf-8",
			"Vary": "Accept", "Cache-Control": "", "ETag": ""} {
			if got.Header.Get(name) != value {
				t.Errorf("%s: %q", name, got.Header.Get(name))
			}
		}
		if strings.Contains(got.Text, "<script") || !strings.Contains(got.Text, "&lt;script&gt;") ||
			strings.Contains(got.Text, "<b>") || !utf8.ValidString(got.Text) ||
			!strings.Contains(got.Text, `<a href="../">`) {
			t.Errorf("page:\n%s", got.Text)
		}
		for i, name := range names { // each address leads to its file
			text := s.Request("GET /files/noindex/"+url.PathEscape(strings.TrimSuffix(name, "/")),
				nil, "")
			if slices.Contains(odd, name) && text.Text != name || i == 0 && text.StatusCode != 301 {
				t.Errorf("%q: %d %q", name, text.StatusCode, text.Text)
			}
		}
		for ask, status := range map[string]int{
			"GET /files/": 200, "GET /files/none/": 404, "GET /files/a.txt/": 404,
			"GET /files/.git/": 404, "GET /files/noindex": 301, "GET /files/link-out-folder/": 404,
			"GET /files/link-folder/": 200, "HEAD /files/noindex/": 200, "HEAD /files/none/": 404,
			"POST /files/noindex/": 405, "GET /files/second/?sort=x&y": 200,
		} {
			if got := s.Request(ask, nil, ""); got.StatusCode != status {
				t.Errorf("%s: %d", ask, got.StatusCode)
			}
		}
		if got := s.Request("GET /files/", nil, ""); got.Text != "<h1>root</h1>" {
			t.Errorf("the index file comes first: %q", got.Text)
		}
		plain := start(t, m, root, "/", nil)
		if got := plain.Request("GET /noindex/", nil, ""); got.StatusCode != 404 {
			t.Errorf("listed without having been asked for: %d", got.StatusCode)
		}
	}, modes.Plain, modes.Direct)
}

func TestListingOrder(t *testing.T) {
	root := t.TempDir()
	for i, name := range []string{"b", "c", "a"} {
		path := filepath.Join(root, name)
		must.Do(t, os.WriteFile(path, make([]byte, 100*i), 0o644))
		at := modified.Add(time.Duration(i*i-i*2) * time.Hour) // 0, -1, 0
		must.Do(t, os.Chtimes(path, at, at))
	}
	must.Do(t, os.Mkdir(filepath.Join(root, "z"), 0o755))
	s := start(t, modes.Direct, root, "/", listing)
	for by, want := range map[string]string{
		"": "z/ a b c", "name": "z/ a b c", "-name": "z/ c b a", "size": "z/ b c a", "-size": "z/ a c b",
		"date": "z/ c a b", "-date": "z/ b a c", "other": "z/ a b c",
	} {
		got := s.Request("GET /?sort="+by, nil, "")
		if names := strings.Join(listed(t, got.Text), " "); names != want {
			t.Errorf("%q: %s, want %s", by, names, want)
		}
	}
	if page := s.Request("GET /?sort=size", nil, "").Text; !strings.Contains(page, `value="-size"`) ||
		strings.Contains(page, `href="../"`) || strings.Contains(page, "?") {
		t.Errorf("page:\n%s", page)
	}
}

// TestListingCopied: a program that copies all that links lead to copies each folder once.
func TestListingCopied(t *testing.T) {
	path, err := exec.LookPath("wget")
	if err != nil {
		ci.Lacks(t, "wget")
	}
	root := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(root, "a/b"), 0o755))
	must.Write(t, filepath.Join(root, "a/b/file.txt"), "text")
	s := start(t, modes.Direct, root, "/", listing)
	to := t.TempDir()
	cmd := exec.Command(path, "-q", "-r", "-l", "9", "-nH", "--no-config", "-e", "robots=off", "-P",
		to, "http://"+s.Addr+"/")
	cmd.Env = []string{"HOME=" + to}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got []string
	must.Do(t, filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			got = append(got, strings.TrimPrefix(path, to+"/"))
		}
		return err
	}))
	if want := []string{"a/b/file.txt", "a/b/index.html", "a/index.html",
		"index.html"}; !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestListingJSON(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a\xffb", "é.txt"} {
		path := filepath.Join(root, name)
		must.Do(t, os.WriteFile(path, []byte("12345"), 0o644))
		must.Do(t, os.Chtimes(path, modified, modified))
	}
	must.Do(t, os.Mkdir(filepath.Join(root, "folder"), 0o755))
	s := start(t, modes.Direct, root, "/", listing)
	for accept, want := range map[string]bool{
		"application/json": true, "application/json, text/plain, */*": true, "*/*": false, "": false,
		"text/html, application/json;q=0.9": false, "text/html;q=0.5, application/*": true,
		"application/json;q=0, */*": false, "application/json;q=x": false, "text/html": false,
		strings.Repeat("a/b,", 2000) + "application/json": true,
	} {
		var fields []string
		if accept != "" {
			fields = []string{"Accept: " + accept}
		}
		got := s.Request("GET /", fields, "")
		if is := got.Header.Get("Content-Type") == "application/json"; is != want {
			t.Errorf("%.60s: %s", accept, got.Header.Get("Content-Type"))
		}
	}
	type listed struct {
		Path    string
		Total   int
		Entries []struct {
			Name, Href, Type, Modified string
			Size                       int
		}
	}
	var l listed
	got := s.Request("GET /", []string{"Accept: application/json"}, "")
	if err := json.Unmarshal([]byte(got.Text), &l); err != nil || l.Path != "/" || l.Total != 3 ||
		len(l.Entries) != 3 {
		t.Fatalf("%v: %s", err, got.Text)
	}
	if e := l.Entries[0]; e.Name != "folder" || e.Href != "./folder/" || e.Type != "folder" {
		t.Errorf("%+v", e)
	}
	if e := l.Entries[1]; e.Name != "a\ufffdb" || e.Href != "./a%FFb" || e.Type != "file" ||
		e.Size != 5 || e.Modified != "2024-03-01T12:00:00Z" {
		t.Errorf("%+v", e)
	}
	must.Do(t, os.Mkdir(filepath.Join(root, "empty"), 0o755))
	l = listed{}
	got = s.Request("GET /empty/", []string{"Accept: application/json"}, "")
	if err := json.Unmarshal([]byte(got.Text), &l); err != nil || l.Path != "/empty/" {
		t.Errorf("%v: %s", err, got.Text)
	}
}

// A large folder is cut, says so, and shows what is first in its order. Meanwhile its loop serves
// others.
func TestListingCut(t *testing.T) {
	t.Parallel()
	const n = 100_000
	root, err := os.MkdirTemp("/dev/shm", "listing") // in memory a link takes no time
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(root) })
		if err = fill(root, n); errors.Is(err, unix.ENOSPC) {
			must.Do(t, os.RemoveAll(root)) // others need the space, too
		} else {
			must.Do(t, err)
		}
	}
	if err != nil {
		root = t.TempDir()
		must.Do(t, fill(root, n))
	}
	s := start(t, modes.Direct, root, "/", listing)
	for by, first := range map[string]string{"name": "00000", "-name": fmt.Sprint(n - 1),
		"size": "00000", "-date": ""} {
		c := s.Dial()
		c.Send("GET /?sort=" + by + " HTTP/1.1\r\nHost: a\r\n\r\n")
		if got := s.Request("GET /99999", nil, ""); got.Text != "99999" {
			t.Errorf("meanwhile: %d %q", got.StatusCode, got.Text)
		}
		got := c.Answer("GET")
		names := listed(t, got.Text)
		if len(names) != servefiles.MaxListed || first != "" && names[0] != first ||
			!strings.Contains(got.Text, fmt.Sprintf("first %d of %d", servefiles.MaxListed, n)) {
			t.Errorf("%s: %d names, %.20q", by, len(names), names)
		}
	}
}

// fill makes n files in a folder, 00000 and on. Most are links, 999 to a file: filesystems allow
// some 65,000. On a disk a link takes no inode; in memory (tmpfs) it counts as one, and there may
// be few.
func fill(root string, n int) error {
	for i := range n {
		name := filepath.Join(root, fmt.Sprintf("%05d", n-1-i))
		var err error
		if first := i / 1000 * 1000; i == first {
			err = os.WriteFile(name, []byte(filepath.Base(name)), 0o644)
		} else {
			err = os.Link(filepath.Join(root, fmt.Sprintf("%05d", n-1-first)), name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB",
		1 << 20: "1.0 MiB", 1<<20 - 1: "1.0 MiB", 1<<63 - 1: "8.0 EiB"} {
		if got := servefiles.Size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// FuzzListedName: whatever bytes a name has, its address leads back to it, and neither the address
// nor the text ends what they stand in.
func FuzzListedName(f *testing.F) {
	for _, name := range slices.Concat(odd, unasked) {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		href, text := servefiles.Href(name), servefiles.Text(name)
		back, err := url.PathUnescape(strings.TrimPrefix(href, "./"))
		if err != nil || back != name {
			t.Errorf("%q: %q leads to %q, %v", name, href, back, err)
		}
		base, _ := url.Parse("http://a.test/b/")
		u, err := base.Parse(href)
		if err != nil || u.Host != "a.test" || u.RawQuery != "" || u.Fragment != "" {
			t.Errorf("%q: %v, %v", name, u, err)
		}
		if strings.ContainsAny(href+text, "<>\"'\r\x00") || !utf8.ValidString(text) {
			t.Errorf("%q: %q, %q", name, href, text)
		}
		clean := !strings.ContainsFunc(name, func(r rune) bool {
			return r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError
		})
		if clean && html.UnescapeString(text) != name {
			t.Errorf("%q: %q", name, text)
		}
	})
}
