package servefiles_test

import (
	"archive/zip"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

//go:embed testdata/embedded
var embedded embed.FS

// sources are the same files as an embed.FS, in memory, and in an archive, whose files cannot be
// read in parts.
func sources(t testing.TB) map[string]fs.FS {
	t.Helper()
	inFolder, err := fs.Sub(embedded, "testdata/embedded")
	must.Do(t, err)
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	files := fstest.MapFS{"secret": {Data: []byte("x"), Mode: fs.ModeNamedPipe}}
	must.Do(t, fs.WalkDir(inFolder, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(inFolder, name)
		must.Do(t, err)
		w, err := z.Create(name)
		must.Do(t, err)
		_, err = w.Write(text)
		files[name] = &fstest.MapFile{Data: text, ModTime: modified}
		return err
	}))
	must.Do(t, z.Close())
	zipped, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
	must.Do(t, err)
	return map[string]fs.FS{"embed": inFolder, "memory": files, "zip": zipped}
}

func startFS(t testing.TB, m modes.Mode, fsys fs.FS,
	change func(*servefiles.Settings)) *server.Server {
	t.Helper()
	s := servefiles.Defaults
	if change != nil {
		change(&s)
	}
	h, err := servefiles.FS(fsys, s,
		handlers.Env{Process: around.In(around.Context{Scripts: []string{".php"}})})
	must.Do(t, err)
	return module.Start(t, m, "/f", h)
}

func TestFS(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		for name, fsys := range sources(t) {
			s := startFS(t, m, fsys, func(s *servefiles.Settings) {
				s.Listing, s.Fallback = true, "/a.txt"
			})
			tag := s.Request("GET /f/a.txt", nil, "").Header.Get("ETag")
			if len(tag) < 4 {
				t.Errorf("%s: tag %s", name, tag)
			}
			for _, c := range []struct {
				ask, field string
				status     int
				want       string
			}{
				{"GET /f", "", 301, ""},
				{"GET /f/", "", 200, "<h1>embedded</h1>\n"},
				{"GET /f/a.txt", "", 200, "0123456789"},
				{"HEAD /f/a.txt", "", 200, ""},
				{"POST /f/a.txt", "", 405, "-"},
				{"GET /f/a.txt", "Range: bytes=2-4", 206, "234"},
				{"GET /f/a.txt", "Range: bytes=20-", 416, "-"},
				{"GET /f/a.txt", "If-None-Match: " + tag, 304, ""},
				{"GET /f/a.txt", "If-None-Match: \"x\"", 200, "0123456789"},
				{"GET /f/a.txt", "If-Match: \"x\"", 412, "-"},
				{"GET /f/sub", "", 301, ""},
				{"GET /f/sub/y.css", "", 200, "y"},
				{"GET /f/sub/x.php", "", 404, "-"},
				{"GET /f/none", "Accept: text/html", 200, "0123456789"},
				{"GET /f/none", "", 404, "-"},
				{"GET /f/none", "Accept: image/png", 404, "-"},
				{"GET /f/a.txt/", "Accept: image/png", 404, "-"},
				{"GET /f/none/", "Accept: image/png", 404, "-"},
				{"GET /f/secret", "Accept: image/png", 404, "-"},
			} {
				var fields []string
				if c.field != "" {
					fields = []string{c.field}
				}
				got := s.Request(c.ask, fields, "")
				if got.StatusCode != c.status || c.status < 300 && got.Text != c.want {
					t.Errorf("%s: %s %s: %d %q", name, c.ask, c.field, got.StatusCode, got.Text)
				}
			}
			both := s.Request("GET /f/a.txt", []string{"Range: bytes=0-1,8-9"}, "")
			if both.StatusCode != 206 || !strings.Contains(both.Text, "\r\n\r\n89\r\n") {
				t.Errorf("%s: %d %q", name, both.StatusCode, both.Text)
			}
			page := s.Request("GET /f/sub/", nil, "")
			if names := fmt.Sprint(listed(t, page.Text)); names != "[y.css]" {
				t.Errorf("%s: listed: %s\n%s", name, names, page.Text)
			}
			// A date that nobody knows decides nothing.
			past := "Fri, 01 Mar 2030 12:00:00 GMT"
			a := s.Request("GET /f/a.txt", []string{"If-Modified-Since: " + past}, "")
			dated := a.Header.Get("Last-Modified") != ""
			if name == "memory" && (a.StatusCode != 304 || !dated) ||
				name == "embed" && (a.StatusCode != 200 || dated) {
				t.Errorf("%s: %d %v", name, a.StatusCode, a.Header)
			}
		}
	}, modes.Plain, modes.Direct)
}

// faulty fails in all ways that a file system has.
type faulty struct{ fstest.MapFS }

type short struct{ fs.File }

func (faulty) Open(name string) (fs.File, error) {
	switch name {
	case "denied":
		return nil, fs.ErrPermission
	case "broken":
		return nil, errors.New("a test")
	case "panic":
		panic("a test")
	}
	f, err := fstest.MapFS{"short": {Data: make([]byte, 100)}}.Open(name)
	return short{f}, err
}

func (s short) Read(p []byte) (int, error) { return 0, errors.New("unreadable") }

func TestFSFaults(t *testing.T) {
	s := startFS(t, modes.Direct, faulty{}, nil)
	for name, status := range map[string]int{"denied": 403, "broken": 500, "panic": 500,
		"short": 500} {
		if got := s.Request("GET /f/"+name, nil, ""); got.StatusCode != status {
			t.Errorf("%s: %d", name, got.StatusCode)
		}
	}
	if inFolder, err := fs.Sub(embedded, "testdata"); err != nil || !servefiles.IsEmbedded(embedded) ||
		!servefiles.IsEmbedded(inFolder) || servefiles.IsEmbedded(fstest.MapFS{}) {
		t.Error("an embed.FS is not known")
	}
	if _, err := servefiles.FS(embedded, servefiles.Settings{Fallback: "../x"},
		handlers.Env{}); err == nil {
		t.Error("settings are not checked")
	}
}

// Files that are a part of the program.
func ExampleFS() {
	files, err := fs.Sub(embedded, "testdata/embedded")
	if err != nil {
		log.Fatal(err)
	}
	h, err := servefiles.FS(files, servefiles.Defaults, handlers.Env{})
	if err != nil {
		log.Fatal(err)
	}
	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url))
	// Output:
	// 200 OK
	// <h1>embedded</h1>
}

//go:embed fs_test.go testdata/numbers.txt
var sizes embed.FS

// A file of an embed.FS is hashed on the loop only if it is small; the others are served all the
// same, by a worker's help at the first request.
func TestHashOffLoop(t *testing.T) {
	if on, err := servefiles.OnLoop(sizes, "fs_test.go"); !on || err != nil {
		t.Errorf("a small file: %v, %v", on, err)
	}
	if on, err := servefiles.OnLoop(sizes, "testdata/numbers.txt"); on || err != servefiles.ErrUnhashed {
		t.Errorf("a large file: %v, %v", on, err)
	}
	s := startFS(t, modes.Direct, sizes, nil)
	tag := ""
	for range 2 {
		a := s.Request("GET /f/testdata/numbers.txt", nil, "")
		if now := a.Header.Get("ETag"); a.StatusCode != 200 || len(now) < 30 || tag != "" && now != tag {
			t.Errorf("%s, tag %s, before that %s", a.Status, now, tag)
		} else {
			tag = now
		}
	}
}
