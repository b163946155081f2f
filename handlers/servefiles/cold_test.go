package servefiles_test

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/compression"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// chill takes a file out of the page cache. It skips the test where the filesystem does not let it,
// so only the test's goroutine may call it.
func chill(t testing.TB, path string) {
	t.Helper()
	skipIfWarm(t, chilled(path))
}

func skipIfWarm(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errWarm) {
		t.Skip(err)
	}
	must.Do(t, err)
}

var errWarm = errors.New("files of this filesystem cannot be taken out of the page cache")

// chilled is chill for a handler, which must not end its goroutine. The error is errWarm where the
// filesystem keeps the file.
func chilled(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = f.Sync()
	}
	for range 500 { // pages that a socket has not sent yet stay
		if err == nil {
			err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		}
		if err != nil || !sysio.Cached(int(f.Fd()), 0, info.Size()) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return errWarm
}

// drop is chill of all of a file, where that can be seen. It only counts the pages: the kernel
// begins to read those that are looked for.
func drop(t testing.TB, path string) {
	t.Helper()
	f, err := os.Open(path)
	must.Do(t, err)
	defer f.Close()
	must.Do(t, f.Sync())
	for range 500 {
		must.Do(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		var found unix.Cachestat_t
		all := unix.CachestatRange{}
		if unix.Cachestat(uint(f.Fd()), &all, &found, 0) != nil || found.Cache == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// What has to come from a disk is sent as what is in the cache, over all ways that read a file.
func TestCold(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		root := t.TempDir()
		text := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
		for i := range text {
			text[i] += byte(i / 4096 % 10)
		}
		small, large := filepath.Join(root, "small.bin"), filepath.Join(root, "large.bin")
		must.Do(t, os.WriteFile(small, text[:10_000], 0o644))
		must.Do(t, os.WriteFile(large, text, 0o644))
		must.Do(t, os.Chtimes(small, modified, modified))
		must.Do(t, os.Chtimes(large, modified, modified))
		s := start(t, m, root, "/", func(s *servefiles.Settings) { s.OpenFiles = 1 })
		for range 3 {
			chill(t, small)
			if got := s.Request("GET /small.bin", nil, ""); got.Text != string(text[:10_000]) {
				t.Errorf("small: %d, %d bytes", got.StatusCode, len(got.Text))
			}
			chill(t, large)
			if got := s.Request("GET /large.bin", nil, ""); got.Text != string(text) {
				t.Errorf("large: %d, %d bytes", got.StatusCode, len(got.Text))
			}
			chill(t, large)
			got := s.Request("GET /large.bin", []string{"Range: bytes=300000-900000"}, "")
			if got.Text != string(text[300000:900001]) {
				t.Errorf("range: %d, %d bytes", got.StatusCode, len(got.Text))
			}
			chill(t, large)
			got = s.Request("GET /large.bin", []string{"Range: bytes=5-6,700000-700001"}, "")
			if got.StatusCode != 206 || !bytes.Contains([]byte(got.Text), text[700000:700002]) {
				t.Errorf("ranges: %d, %q", got.StatusCode, got.Text)
			}
		}
		// Names that no cache knows of are looked up off the loop.
		for _, name := range []string{"/a", "/b/c", "/large.bin/x"} {
			if got := s.Request("GET "+name, nil, ""); got.StatusCode != 404 {
				t.Errorf("%s: %d", name, got.StatusCode)
			}
		}
	}, modes.Plain, modes.Direct, modes.OverTLS)
}

// startBusy serves a folder, and at /busy makes all workers busy until done is called.
func startBusy(t *testing.T, root string, precompressed bool) (s *server.Server, done func()) {
	p := policy(t, 0)
	files, err := build(t, handlers.Env{Process: around.In(around.Context{Compression: p})},
		func(s *servefiles.Settings) {
			s.Path, s.Precompressed = root, precompressed
		})
	must.Do(t, err)
	release := make(chan struct{})
	return module.Start(t, modes.Direct, "/", compression.Middleware(p)(
		func(req *conn.Request, resp *conn.Response) int {
			switch string(req.Layer().PathView()) {
			case "/busy":
				var begun sync.WaitGroup
				begun.Add(loop.DefaultWorkers)
				for range loop.DefaultWorkers {
					loop.Call(req.Thread, func() (struct{}, error) {
						begun.Done()
						<-release
						return struct{}{}, nil
					})
				}
				begun.Wait()
				return 200
			case "/else":
				return 200
			}
			return files(req, resp)
		})), sync.OnceFunc(func() { close(release) })
}

// A thread that is killed while it waits for a disk leaves no file open: one whose sibling it looks
// for, and one that it reads to keep it.
func TestColdAndKilled(t *testing.T) {
	for _, name := range []string{"a.css", "small.gif"} {
		root := t.TempDir()
		path := filepath.Join(root, name)
		must.Do(t, os.WriteFile(path, []byte(text(5000, 0)), 0o644))
		must.Do(t, os.Chtimes(path, modified, modified))
		s, done := startBusy(t, root, true)
		if name == "small.gif" {
			s.Request("HEAD /"+name, nil, "")
		}
		s.Request("GET /busy", nil, "")
		drop(t, path)
		s.Dial().Send("GET /" + name + " HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n")
		for range 20 {
			s.Request("GET /else", nil, "")
		}
		if held(t, root, name) == 0 {
			t.Logf("%s: no thread waits for it", name)
		}
		s.Stop(0)
		if n := held(t, root, name); n != 0 {
			t.Errorf("%s: %d open", name, n)
		}
		done()
	}
}

// A cold file that is compressed while it is sent is read by a worker, too: while there is none,
// the loop answers others.
func TestColdAndCompressed(t *testing.T) {
	root := t.TempDir()
	path, content := filepath.Join(root, "a.css"), text(1<<20, 0)
	must.Do(t, os.WriteFile(path, []byte(content), 0o644))
	s, done := startBusy(t, root, false) // no cache knows of the names of siblings
	defer done()
	s.Request("HEAD /a.css", nil, "") // so that the name is in the cache
	s.Request("GET /busy", nil, "")
	chill(t, path)
	drop(t, path)
	c := s.Dial()
	c.R = bufio.NewReader(c.Conn)
	c.Send("GET /a.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n")
	for range 20 {
		s.Request("GET /else", nil, "")
	}
	must.Do(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	if _, err := c.R.Peek(2000); err == nil { // the head is shorter
		t.Error("the loop has read the file")
	}
	must.Do(t, c.SetReadDeadline(time.Now().Add(wait.Patience)))
	done()
	if a := c.Answer("GET"); a.Header.Get("Content-Encoding") != "gzip" || decode(t, a) != content {
		t.Errorf("%s, %v", a.Status, a.Header)
	}
}

// The loop hands a cold file to a worker and not a warm one.
func TestColdIsKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	must.Do(t, os.WriteFile(path, make([]byte, 500_000), 0o644))
	f, err := os.Open(path)
	must.Do(t, err)
	defer f.Close()
	fd := int(f.Fd())
	// warm reads n bytes, and reports whether they are in the cache then. If memory is scarce, the
	// kernel may drop them at once.
	warm := func(n int) bool {
		for range 500 {
			_, err := f.ReadAt(make([]byte, n), 0)
			must.Do(t, err)
			if sysio.Cached(fd, 0, int64(n)) {
				return true
			}
		}
		return false
	}
	if !warm(500_000) || !sysio.Cached(fd, 600_000, 0) {
		t.Error("a file that was just read is in the cache")
	}
	// Without this, the kernel reads ahead, which may be all of the file.
	must.Do(t, unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM))
	must.Do(t, f.Sync())
	for i := 0; ; i++ {
		must.Do(t, unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED))
		// The look lets the kernel read the page, so a second one may find it.
		if _, errno := sysio.ReadCached(fd, make([]byte, 10), 0); errno == unix.EAGAIN {
			break
		}
		if i == 500 {
			t.Skip(errWarm)
		}
		time.Sleep(time.Millisecond)
	}
	if !warm(1) || sysio.Cached(fd, 0, 500_000) {
		t.Error("the first page is in the cache, the whole file is not")
	}
}
