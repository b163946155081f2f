package cache_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/server"
)

// ping sends b.N requests of one connection, one after the other.
func ping(b *testing.B, s *server.Server, target string) {
	c := s.Dial()
	raw := []byte("GET " + target + " HTTP/1.1\r\nHost: test.example\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
	size := 0
	for i := 0; i < 3; i++ { // until it is kept
		before := c.R.Buffered()
		_ = before
		c.Send(string(raw))
		n := 0
		for {
			line, err := c.R.ReadString('\n')
			if err != nil {
				b.Fatal(err)
			}
			n += len(line)
			if line == "\r\n" {
				break
			}
		}
		if _, err := io.CopyN(io.Discard, c.R, 4<<10); err != nil {
			b.Fatal(err)
		}
		size = n + 4<<10
	}
	buf := make([]byte, size)
	b.ResetTimer()
	for range b.N {
		if _, err := c.Write(raw); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c.R, buf); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHit is a hit of 4 KiB in memory, BenchmarkFile a file of that length: both with the client's part.
func BenchmarkHit(b *testing.B) {
	s := start(b, modes.Direct, cache.Settings{}, func(_ *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=5000", `ETag: "abcdefgh"`, "Last-Modified: "+past, "Accept-Ranges: bytes",
			"Content-Type: text/plain")
		return w.Text(200, strings.Repeat("x", 4<<10))
	})
	ping(b, s.Server, "/a.txt")
}

func BenchmarkFile(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte(strings.Repeat("x", 4<<10)), 0o600); err != nil {
		b.Fatal(err)
	}
	set := servefiles.Defaults
	set.Path = dir
	h, err := servefiles.New(set, handlers.Env{Prefix: "/"})
	if err != nil {
		b.Fatal(err)
	}
	ping(b, module.Start(b, modes.Direct, "/", h), "/a.txt")
}

// BenchmarkMiss is an answer that is not kept, past the cache, and one that is filled; BenchmarkPlain the
// same without a cache.
func BenchmarkFill(b *testing.B) {
	b.Run("plain", func(b *testing.B) { miss(b, false) })
	b.Run("fill", func(b *testing.B) { miss(b, true) })
}

func miss(b *testing.B, cached bool) {
	h := func(_ *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: s-maxage=0", `ETag: "abcdefgh"`, "Content-Type: text/plain")
		w.Layer().Relay(200, "")
		_, _ = w.WriteString(strings.Repeat("x", 4<<10))
		return 200
	}
	if cached {
		s := start(b, modes.Direct, cache.Settings{}, h)
		ping(b, s.Server, "/a.txt")
		return
	}
	ping(b, module.Start(b, modes.Direct, "/", h), "/a.txt")
}
