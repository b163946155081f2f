package servefiles_test

import (
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/compression"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// What becomes of a file while it is sent: a client gets all of the old one, or sees that the
// answer was cut. It never gets a part that looks like the whole, and nothing stays open.
func TestChangedWhileSent(t *testing.T) {
	const size = 8 << 20 // a socket takes four at most
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		for what, c := range map[string]struct {
			cut    bool
			change func(path string) error
		}{
			"truncated": {true, func(path string) error { return os.Truncate(path, 1000) }},
			"emptied":   {true, func(path string) error { return os.Truncate(path, 0) }},
			"replaced": {false, func(path string) error {
				if err := os.WriteFile(path+".new", []byte("new"), 0o644); err != nil {
					return err
				}
				return os.Rename(path+".new", path)
			}},
			"removed":    {false, os.Remove},
			"unreadable": {false, func(path string) error { return os.Chmod(path, 0) }},
			"longer":     {false, func(path string) error { return os.Truncate(path, 2*size) }},
		} {
			for _, field := range []string{"", "Range: bytes=10-\r\n", "Range: bytes=0-4000000,5-\r\n"} {
				root := t.TempDir()
				path := filepath.Join(root, "long.bin")
				must.Do(t, os.WriteFile(path, nil, 0o644))
				must.Do(t, os.Truncate(path, size))
				must.Do(t, os.Chtimes(path, modified, modified))
				s := start(t, m, root, "/", func(s *servefiles.Settings) { s.OpenFiles = 2 })
				client := s.Dial() // the file is too long for the buffers of both sockets
				client.Send("GET /long.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + field + "\r\n")
				answer, err := http.ReadResponse(client.R, nil)
				must.Do(t, err)
				must.Do(t, c.change(path))
				n, err := io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if cut := errors.Is(err, io.ErrUnexpectedEOF) ||
					errors.Is(err, unix.ECONNRESET); cut != c.cut || !cut && err != nil ||
					!cut && n != answer.ContentLength {
					t.Errorf("%s, %q: %d of %d bytes, %v", what, field, n, answer.ContentLength, err)
				}
				wait.Until(t, "all is closed", func() bool { return held(t, root, "") == 0 })
				s.Stop(0)
			}
		}
	}, modes.Plain, modes.OverTLS)
}

// What becomes of a file while it is compressed: a client gets all of the old one, or sees that the
// answer was cut, and the next one gets the new one.
func TestChangedWhileCompressed(t *testing.T) {
	text := base64.StdEncoding.EncodeToString(modes.Noise(6 << 20)) // three quarters remain
	policy := defaultPolicy(t)
	for what, c := range map[string]struct {
		then   string // of the text
		change func(path string) error
	}{
		"truncated": {text[:1000], func(path string) error { return os.Truncate(path, 1000) }},
		"emptied":   {"", func(path string) error { return os.Truncate(path, 0) }},
		"replaced": {"new", func(path string) error {
			if err := os.WriteFile(path+".new", []byte("new"), 0o644); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		}},
		"removed": {"-", os.Remove},
	} {
		for _, coding := range []string{"gzip", "zstd"} {
			root := t.TempDir()
			path := filepath.Join(root, "long.txt")
			must.Do(t, os.WriteFile(path, []byte(text), 0o644))
			h, err := build(t, handlers.Env{Process: around.In(around.Context{Compression: policy})},
				func(s *servefiles.Settings) {
					s.Path, s.OpenFiles = root, 2
				})
			must.Do(t, err)
			s := module.Start(t, modes.Direct, "/", compression.Middleware(policy)(h))
			client := s.Dial()
			client.Send("GET /long.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: " + coding +
				"\r\nConnection: close\r\n\r\n")
			answer, err := http.ReadResponse(client.R, nil)
			must.Do(t, err)
			if got := answer.Header.Get("Content-Encoding"); got != coding {
				t.Fatalf("%s, %s: encoded by %q", what, coding, got)
			}
			must.Do(t, c.change(path))
			plain := io.Reader(nil)
			if coding == "gzip" {
				plain, err = gzip.NewReader(answer.Body)
			} else {
				plain, err = zstd.NewReader(answer.Body, zstd.WithDecoderConcurrency(1))
			}
			must.Do(t, err)
			got, err := io.ReadAll(plain)
			if err == nil {
				_, err = answer.Body.Read(make([]byte, 1)) // the end of the answer, too
			}
			if whole := err == io.EOF; whole && string(got) != text ||
				!whole && what != "truncated" && what != "emptied" {
				t.Errorf("%s, %s: %d of %d bytes, %v", what, coding, len(got), len(text), err)
			}
			answer.Body.Close()
			wait.Until(t, "the next client gets what is there now", func() bool {
				a := s.Request("GET /long.txt", nil, "")
				return a.Text == c.then || c.then == "-" && a.StatusCode == 404
			})
			wait.Until(t, "all is closed", func() bool { return held(t, root, "") == 0 })
			s.Stop(0)
		}
	}
}
