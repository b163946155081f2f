package servefiles_test

import (
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
	"github.com/lwango/lwango/internal/test/files"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

func TestConditions(t *testing.T) { files.Conditions(t, start(t, modes.Plain, tree(t), "/", nil)) }

func TestSingleRange(t *testing.T) { files.SingleRange(t, start(t, modes.Plain, tree(t), "/", nil)) }

func TestIfRange(t *testing.T) { files.IfRange(t, start(t, modes.Plain, tree(t), "/", nil)) }

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
		handlers.Env{Process: around.In(around.Context{Compression: p})})
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
		files.SeveralRanges(t, start(t, m, root, "/", nil))
	}, modes.Plain, modes.Direct)
}

func TestTooManyRanges(t *testing.T) {
	files.TooManyRanges(t, start(t, modes.Plain, tree(t), "/", nil))
}
