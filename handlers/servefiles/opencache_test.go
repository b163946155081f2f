package servefiles_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/base/openfiles"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// held returns how many descriptors of the process lead to files below dir whose names have part in
// them.
func held(t testing.TB, dir, part string) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must.Do(t, err)
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil &&
			strings.HasPrefix(to, dir+"/") && strings.Contains(to, part) {
			n++
		}
	}
	return n
}

// same reports whether two answers have the same status, header and content.
func same(a, b server.Answer) bool {
	return a.StatusCode == b.StatusCode && a.Text == b.Text && reflect.DeepEqual(a.Header, b.Header)
}

// replace renames a file with that text over another, with the old time.
func replace(t testing.TB, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path+".new", []byte(text), 0o644))
	must.Do(t, os.Chtimes(path+".new", modified, modified))
	must.Do(t, os.Rename(path+".new", path))
}

// A file that is asked for twice stays at hand. Whatever becomes of it is seen after a second.
func TestCached(t *testing.T) {
	t.Parallel()
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		root := tree(t)
		s := start(t, m, root, "/", nil)
		fresh := start(t, m, root, "/", func(s *servefiles.Settings) { s.OpenFiles = 0 })
		cases := []struct {
			file, text string
			change     func(path string)
		}{
			{"a.txt", "0123456789", func(path string) { replace(t, path, "9876543210") }},
			{"big.bin", big, func(path string) { replace(t, path, big[1:]+big[:1]) }},
			{"noextension", "?", func(path string) {
				must.Do(t, os.WriteFile(path, []byte("!"), 0o644))
			}},
			{"track.gpx", "<gpx/>", func(path string) { must.Do(t, os.Remove(path)) }},
			{"small.bin", big[:16<<10], func(path string) {
				must.Do(t, os.Remove(path))
				must.Do(t, os.Symlink("../outside.txt", path))
			}},
			{"sub/page.html", "<h1>page</h1>", func(path string) {
				must.Do(t, os.Remove(path))
				must.Do(t, os.Mkdir(path, 0o755))
			}},
		}
		for _, c := range cases {
			asked := time.Now()
			for range 2 {
				if got := s.Request("GET /"+c.file, nil, ""); got.Text != c.text {
					t.Fatalf("%s: %d", c.file, got.StatusCode)
				}
			}
			c.change(filepath.Join(root, c.file))
			got := s.Request("GET /"+c.file, nil, "")
			if time.Since(asked) < 500*time.Millisecond && got.Text != c.text {
				t.Errorf("%s was not kept: %d", c.file, got.StatusCode)
			}
		}
		time.Sleep(1100 * time.Millisecond)
		for _, c := range cases {
			got, want := s.Request("GET /"+c.file, nil, ""), fresh.Request("GET /"+c.file, nil, "")
			got.Header.Del("Date")
			want.Header.Del("Date")
			if !same(got, want) {
				t.Errorf("%s after a second: %d %v, want %d %v", c.file, got.StatusCode,
					got.Header, want.StatusCode, want.Header)
			}
		}
		wait.Until(t, "files that are not asked for are closed", func() bool {
			return held(t, root, "") == 0
		})
	}, modes.Plain, modes.Direct)
}

// A large file that is rewritten in place has its new length and entity tag at once: they must be
// true of what is sent.
func TestCachedAndRewritten(t *testing.T) {
	root := tree(t)
	s := start(t, modes.Direct, root, "/", nil)
	var before server.Answer
	wait.Until(t, "the file is kept", func() bool {
		before = s.Request("GET /big.bin", nil, "")
		return held(t, root, "big.bin") == 1
	})
	must.Do(t, os.Truncate(filepath.Join(root, "big.bin"), 50_000))
	got := s.Request("GET /big.bin", nil, "")
	if got.Text != big[:50_000] || got.Header.Get("ETag") == before.Header.Get("ETag") {
		t.Errorf("%d bytes, %v", len(got.Text), got.Header)
	}
	if held(t, root, "big.bin") != 0 {
		t.Error("a file that has just changed was kept")
	}
}

// Answers do not depend on whether the file was at hand.
func TestCachedAnswers(t *testing.T) {
	t.Parallel()
	root := tree(t)
	must.Do(t, os.WriteFile(filepath.Join(root, "4k.html"), []byte(big[:4096]), 0o644))
	must.Do(t, os.Chtimes(filepath.Join(root, "4k.html"), modified, modified))
	kept := func(s *servefiles.Settings) { s.CacheControl = "no-cache" }
	h, err := build(t, handlers.Env{}, func(s *servefiles.Settings) { s.Path = root; kept(s) })
	must.Do(t, err)
	fresh := start(t, modes.Direct, root, "/", func(s *servefiles.Settings) {
		kept(s)
		s.OpenFiles = 0
	})
	servers := []*server.Server{
		module.Start(t, modes.Direct, "/", h), module.Start(t, modes.OverTLS, "/", h),
	}
	for _, path := range []string{"/a.txt", "/4k.html", "/big.bin", "/empty.txt", "/"} {
		for _, method := range []string{"GET", "HEAD"} {
			for _, fields := range [][]string{
				nil,
				{"Range: bytes=2-5"},
				{"Range: bytes=-3"},
				{"Range: bytes=1-2,4-"},
				{"Range: bytes=900000-"},
				{"If-None-Match: " + etag},
				{"If-None-Match: *"},
				{"If-Match: \"x\""},
				{"If-Modified-Since: " + lastModified},
				{"Range: bytes=0-1", "If-Range: " + lastModified},
				{"Range: bytes=0-1", "If-Range: \"x\""},
			} {
				want := fresh.Request(method+" "+path, fields, "")
				for _, s := range servers {
					for try := range 3 {
						got := s.Request(method+" "+path, fields, "")
						for _, r := range []*server.Answer{&want, &got} {
							r.Header.Del("Date")
							mediaType, boundary, ok := strings.Cut(r.Header.Get("Content-Type"),
								"; boundary=")
							if ok {
								r.Header.Set("Content-Type", mediaType)
								r.Text = strings.ReplaceAll(r.Text, boundary, "boundary")
							}
						}
						if !same(got, want) {
							t.Errorf("%s %s %v, %s, try %d: %d %v %d bytes, want %d %v %d bytes",
								method, path, fields, s.Mode.Name, try, got.StatusCode, got.Header,
								len(got.Text), want.StatusCode, want.Header, len(want.Text))
						}
					}
				}
			}
		}
	}
}

// What is not kept: a file that was asked for once, one that has just changed, and more than there
// is room for.
func TestNotCached(t *testing.T) {
	servefiles.SetCachedFor(t, time.Hour) // what is open after the answer is kept
	root := tree(t)
	for i := range 8 {
		path := filepath.Join(root, fmt.Sprintf("many%d.bin", i))
		must.Do(t, os.WriteFile(path, []byte(big), 0o644))
		must.Do(t, os.Chtimes(path, modified, modified))
	}
	s := start(t, modes.Direct, root, "/", func(s *servefiles.Settings) { s.OpenFiles = 3 })
	for i := range 8 {
		s.Request(fmt.Sprintf("GET /many%d.bin", i), nil, "")
	}
	wait.Until(t, "none is open that was asked for once", func() bool {
		return held(t, root, "many") == 0
	})
	soon := time.Now().Add(time.Minute) // for a slow test
	must.Do(t, os.Chtimes(filepath.Join(root, "big.bin"), modified, soon))
	for range 3 {
		s.Request("GET /big.bin", nil, "")
	}
	wait.Until(t, "none is open that has just changed", func() bool {
		return held(t, root, "big.bin") == 0
	})
	for i := range 8 {
		for range 2 {
			if got := s.Request(fmt.Sprintf("GET /many%d.bin", i), nil, ""); got.Text != big {
				t.Errorf("%d, %d bytes", got.StatusCode, len(got.Text))
			}
		}
	}
	// The answer before may hold its file still.
	wait.Until(t, "three are kept", func() bool { return held(t, root, "many") == 3 })
}

// The routes of a process keep no more files open than its budget has for that, and give back what
// they do not keep any more. Small files hold no descriptor.
func TestCachedWithinBudget(t *testing.T) {
	servefiles.SetCachedFor(t, time.Hour) // a second may be over before all files were asked for
	b := openfiles.New(400)
	servefiles.SetBudget(t, b)
	const most = 400 / 8
	roots := [2]string{tree(t), tree(t)}
	var routes [2]*server.Server
	for i, root := range roots {
		for j := range most {
			path := filepath.Join(root, fmt.Sprintf("many%d.bin", j))
			must.Do(t, os.WriteFile(path, []byte(big), 0o644))
			must.Do(t, os.Chtimes(path, modified, modified))
		}
		routes[i] = start(t, modes.Direct, root, "/", nil)
	}
	for range 2 {
		routes[0].Request("GET /a.txt", nil, "")
	}
	for j := range most {
		for i := range routes {
			for range 2 {
				got := routes[i].Request(fmt.Sprintf("GET /many%d.bin", j), nil, "")
				if got.Text != big {
					t.Errorf("%d, %d bytes", got.StatusCode, len(got.Text))
				}
			}
		}
	}
	// The answer before may hold its file still.
	wait.Until(t, "the budget is used up", func() bool {
		return held(t, roots[0], "many")+held(t, roots[1], "many") == most
	})
	if n := b.Kept(); n != most {
		t.Errorf("%d of the budget are used up, want %d", n, most)
	}
	for _, s := range routes {
		s.Stop(0)
	}
	if n := b.Kept(); n != 0 {
		t.Errorf("%d are not given back", n)
	}
}

// A file that leaves the cache while it is sent is sent to its end, and closed then.
func TestCachedWhileSent(t *testing.T) {
	t.Parallel()
	root := tree(t)
	path := filepath.Join(root, "long.bin")
	const size = 64 << 20
	must.Do(t, os.WriteFile(path, nil, 0o644))
	must.Do(t, os.Truncate(path, size))
	must.Do(t, os.Chtimes(path, modified, modified))
	s := start(t, modes.Direct, root, "/", nil)
	for range 2 {
		s.Request("HEAD /long.bin", nil, "")
	}
	c := s.Dial()
	c.Send("GET /long.bin HTTP/1.1\r\nHost: a\r\n\r\n")
	answer, err := http.ReadResponse(c.R, nil)
	must.Do(t, err)
	defer answer.Body.Close()
	must.Do(t, os.Remove(path))
	wait.Until(t, "the file has left the cache", func() bool {
		return s.Request("HEAD /long.bin", nil, "").StatusCode == 404
	})
	if n := held(t, root, "long.bin"); n != 1 {
		t.Errorf("%d open while it is sent, want 1", n)
	}
	if n, err := io.Copy(io.Discard, answer.Body); n != size || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	wait.Until(t, "the file is closed", func() bool { return held(t, root, "long.bin") == 0 })
}

// Threads that are killed while they send from a file at hand give it back, and so does the
// cache's.
func TestCachedAndKilled(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		root := tree(t)
		path := filepath.Join(root, "long.bin")
		must.Do(t, os.WriteFile(path, nil, 0o644))
		must.Do(t, os.Truncate(path, 64<<20))
		must.Do(t, os.Chtimes(path, modified, modified))
		s := start(t, m, root, "/", nil)
		for range 2 {
			s.Request("HEAD /long.bin", nil, "")
		}
		for _, field := range []string{"", "Range: bytes=0-\r\n", "Range: bytes=0-50000000,9-\r\n"} {
			c := s.Dial() // it reads no more than the head
			c.Send("GET /long.bin HTTP/1.1\r\nHost: a\r\n" + field + "\r\n")
			answer, err := http.ReadResponse(c.R, nil)
			must.Do(t, err)
			defer answer.Body.Close()
		}
		if held(t, root, "long.bin") == 0 {
			t.Error("no answer is under way")
		}
		s.Stop(0)
		// A function off the loop that fetches the file from the disk for a thread that was killed has a
		// descriptor of its own, until it has read.
		wait.Until(t, "the file is closed", func() bool { return held(t, root, "long.bin") == 0 })
	})
}

// Files at hand make way when descriptors have run out. While
// there are none, the garbage collector may close the folder of a test before this one; then the
// request needs no way, and the test tries again.
func TestCachedMakeWay(t *testing.T) {
	servefiles.SetCachedFor(t, time.Hour) // its time is not over
	root := tree(t)
	s := start(t, modes.Direct, root, "/", nil)
	c := s.Dial()
	ask := func(path string) int {
		return c.Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n").StatusCode
	}
	wait.Until(t, "a file that is kept makes way", func() bool {
		wait.Until(t, "a file is kept", func() bool {
			ask("/big.bin")
			ask("/none") // by then the answer before does not hold the file any more
			return held(t, root, "big.bin") == 1
		})
		free := leak.Exhaust(t)
		status := ask("/a.txt")
		free()
		return status == 200 && held(t, root, "big.bin") == 0
	})
}

// Contents go by the entity tag of the state in which the file was opened. So they are not kept if
// the file is written to before they are read.
func TestCachedContentsAreOfTheirTag(t *testing.T) {
	for what, text := range map[string]string{
		"as long": "9876543210", "longer": "0123456789x", "shorter": "0", "": "",
	} {
		path := filepath.Join(tree(t), "a.txt")
		got, err := servefiles.Load(path, func() {
			if what != "" {
				must.Do(t, os.WriteFile(path, []byte(text), 0o644))
			}
		})
		must.Do(t, err)
		if want := what == ""; got != want {
			t.Errorf("%q: %v", what, got)
		}
	}
}

// All loops together keep no more than open_files.
func TestShares(t *testing.T) {
	for _, tt := range []struct {
		openFiles, loops int
		want             string
	}{
		{256, 1, "[256]"}, {256, 2, "[128 128]"}, {7, 3, "[3 2 2]"}, {1, 3, "[1 0 0]"}, {1, 0, "[]"},
	} {
		if got := fmt.Sprint(servefiles.Shares(tt.openFiles, tt.loops)); got != tt.want {
			t.Errorf("%d on %d loops: %s, want %s", tt.openFiles, tt.loops, got, tt.want)
		}
	}
}

// BenchmarkOpenCache asks for 4 KiB that the cache has.
func BenchmarkOpenCache(b *testing.B) {
	root := b.TempDir()
	must.Do(b, os.WriteFile(filepath.Join(root, "4k.bin"), make([]byte, 4<<10), 0o644))
	must.Do(b, os.Chtimes(filepath.Join(root, "4k.bin"), modified, modified))
	s := start(b, modes.Direct, root, "/", nil)
	const raw = "GET /4k.bin HTTP/1.1\r\nHost: a\r\n\r\n"
	client := s.Dial()
	client.Do("GET", raw)
	b.ReportAllocs()
	for b.Loop() {
		client.Send(raw)
		answer, err := http.ReadResponse(client.R, nil)
		must.Do(b, err)
		_, err = io.Copy(io.Discard, answer.Body)
		must.Do(b, err)
	}
}
