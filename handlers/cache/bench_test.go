package cache_test

import (
	"bytes"
	"fmt"
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
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

// ping sends b.N requests of one connection, one after the other.
func ping(b *testing.B, s *server.Server, target string) {
	c := s.Dial()
	raw := []byte("GET " + target +
		" HTTP/1.1\r\nHost: test.example\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
	size := 0
	for i := 0; i < 3; i++ { // until it is kept
		before := c.R.Buffered()
		_ = before
		c.Send(string(raw))
		n := 0
		for {
			line := must.Get(c.R.ReadString('\n'))(b)
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

// BenchmarkHit is a hit of 4 KiB in memory, BenchmarkFile a file of that length: both with the
// client's part.
func BenchmarkHit(b *testing.B) {
	s := start(b, modes.Direct, cache.Settings{}, func(_ *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=5000", `ETag: "abcdefgh"`, "Last-Modified: "+past,
			"Accept-Ranges: bytes", "Content-Type: text/plain")
		return w.Text(200, strings.Repeat("x", 4<<10))
	})
	ping(b, s.Server, "/a.txt")
}

func BenchmarkFile(b *testing.B) {
	dir := b.TempDir()
	must.Do(b, os.WriteFile(filepath.Join(dir, "a.txt"), []byte(strings.Repeat("x", 4<<10)), 0o600))
	set := servefiles.Defaults
	set.Path = dir
	h := must.Get(servefiles.New(set, handlers.Env{Prefix: "/"}))(b)
	ping(b, module.Start(b, modes.Direct, "/", h), "/a.txt")
}

// BenchmarkMiss is an answer that is asked for once and kept; "plain" is the same without the
// layer, and "passed" one that is known to be for one client alone. The handler stands for a
// proxy's.
func BenchmarkMiss(b *testing.B) {
	for _, how := range []string{"plain", "passed", "kept"} {
		b.Run(how, func(b *testing.B) {
			control := "Cache-Control: max-age=5000"
			if how == "passed" {
				control = "Cache-Control: private"
			}
			body := []byte(strings.Repeat("x", 1<<10))
			h := func(_ *conn.Request, w *conn.Response) int {
				fields(w, control, `ETag: "abcdefgh"`, "Content-Type: text/plain", "Content-Length: 1024",
					"Date: "+past)
				w.Layer().Relay(200, "")
				_, _ = w.Write(body)
				return 200
			}
			var s *server.Server
			if how == "plain" {
				s = module.Start(b, modes.Direct, "/", h)
			} else {
				s = start(b, modes.Direct, cache.Settings{}, h).Server
			}
			missed(b, s, how == "passed")
		})
	}
}

// missed sends b.N requests of one connection in bulk, each for another target, unless they are for
// the same.
func missed(b *testing.B, s *server.Server, same bool) {
	const batch = 64
	c := s.Dial()
	raw := []byte(strings.Repeat(
		"GET /a.txt?00000000 HTTP/1.1\r\nHost: test.example\r\nUser-Agent: bench\r\n"+
			"Accept: */*\r\n\r\n", batch))
	step := len(raw) / batch
	buf := make([]byte, 64<<10)
	n := 0
	round := func() {
		for i := range batch {
			if n++; !same {
				copy(raw[i*step+len("GET /a.txt?"):], fmt.Sprintf("%08d", n))
			}
		}
		if _, err := c.Write(raw); err != nil {
			b.Fatal(err)
		}
		for ends := 0; ends < batch; { // each answer has one empty line
			k := must.Get(c.R.Read(buf))(b)
			ends += bytes.Count(buf[:k], []byte("Content-Length: 1024"))
		}
	}
	round()
	b.ResetTimer()
	for i := 0; i < b.N; i += batch {
		round()
	}
}
