package servefiles_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/internal/test/modes"
)

// chill takes a file out of the page cache, as far as the filesystem lets it.
func chill(t testing.TB, path string) {
	t.Helper()
	f, err := os.Open(path)
	check(t, err)
	defer f.Close()
	check(t, f.Sync())
	info, err := f.Stat()
	check(t, err)
	for range 500 { // pages that a socket has not sent yet stay
		check(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		if !sysio.Cached(int(f.Fd()), 0, info.Size()) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Skip("files of this filesystem cannot be taken out of the page cache")
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
		check(t, os.WriteFile(small, text[:10_000], 0o644))
		check(t, os.WriteFile(large, text, 0o644))
		check(t, os.Chtimes(small, modified, modified))
		check(t, os.Chtimes(large, modified, modified))
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

// The loop hands a cold file to a worker and not a warm one.
func TestColdIsKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	check(t, os.WriteFile(path, make([]byte, 500_000), 0o644))
	f, err := os.Open(path)
	check(t, err)
	defer f.Close()
	fd := int(f.Fd())
	if !sysio.Cached(fd, 0, 500_000) || !sysio.Cached(fd, 600_000, 0) {
		t.Error("a file that was just written is in the cache")
	}
	chill(t, path)
	if n, errno := sysio.ReadCached(fd, make([]byte, 10), 0); errno != unix.EAGAIN {
		t.Errorf("%d, %v", n, errno)
	}
	_, err = f.ReadAt(make([]byte, 1), 0) // and what the kernel reads ahead of that
	check(t, err)
	if !sysio.Cached(fd, 0, 1) || sysio.Cached(fd, 0, 500_000) {
		t.Error("the first page is in the cache, the whole file is not")
	}
}
