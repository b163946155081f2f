package servefiles_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/compress"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/compression"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// defaultPolicy is that of a server whose file says nothing of compression, without a cache.
func defaultPolicy(t testing.TB) *coding.Policy {
	t.Helper()
	s := compress.Defaults
	return must.Get(compression.Policy(s.Encodings, *s.MinSize, s.Types, *s.Level))(t)
}

// policy is the default one with a cache.
func policy(t testing.TB, cache int64) *coding.Policy {
	t.Helper()
	p := defaultPolicy(t)
	p.Cache = coding.NewCache(cache)
	return p
}

// startEncoding serves a folder, and compresses what it answers.
func startEncoding(t testing.TB, m modes.Mode, root string, p *coding.Policy,
	change func(*servefiles.Settings)) *server.Server {
	t.Helper()
	h, err := build(t, handlers.Env{Process: around.In(around.Context{Compression: p})},
		func(s *servefiles.Settings) {
			s.Path = root
			if change != nil {
				change(s)
			}
		})
	must.Do(t, err)
	return module.Start(t, m, "/", compression.Middleware(p)(h))
}

// text is n bytes that can be compressed, but not to nothing.
func text(n, seed int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d bottles of beer on the wall, %x.\n", (i+seed)*7919, i*i)
	}
	return b.String()[:n]
}

// decode returns the body of an answer before it was encoded.
func decode(t testing.TB, a server.Answer) string {
	t.Helper()
	var r io.Reader = strings.NewReader(a.Text)
	var err error
	switch a.Header.Get("Content-Encoding") {
	case "br":
		r = brotli.NewReader(r)
	case "zstd":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1)); err == nil {
			defer z.Close()
			r = z
		}
	case "gzip":
		r, err = gzip.NewReader(r)
	}
	if err != nil {
		t.Errorf("%v: %v", a.Header, err)
		return ""
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("%v: %v", a.Header, err)
	}
	return string(out)
}

// kept reports whether an answer was compressed before: else its length would not be known.
func kept(a server.Answer) bool {
	return a.Header.Get("Content-Encoding") != "" && a.ContentLength == int64(len(a.Text))
}

// A file that was compressed once is kept, with a length, and with the same header and conditions
// as one that is compressed while it is sent.
func TestEncoded(t *testing.T) {
	servefiles.SetUntouched(t, -time.Hour)
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		root := t.TempDir()
		files := map[string]string{"/long.css": text(100<<10, 0), "/short.css": text(5000, 1),
			"/a.gif": text(5000, 2), "/tiny.css": text(1023, 3), "/huge.css": text(128<<10+1, 4)}
		for name, content := range files {
			must.Do(t, os.WriteFile(root+name, []byte(content), 0o644))
			must.Do(t, os.Chtimes(root+name, modified, modified))
		}
		p := policy(t, 1<<20)
		s := startEncoding(t, m, root, p, nil)
		uncached := *p
		uncached.Cache = nil
		plain := startEncoding(t, m, root, &uncached, nil)
		for range 2 { // also from the cache
			for name, content := range files {
				for _, e := range []string{"gzip", "br", "zstd", "identity", "gzip;q=0.5, br"} {
					fields := []string{"Accept-Encoding: " + e}
					a := s.Request("GET "+name, fields, "")
					was := plain.Request("GET "+name, fields, "")
					tag := was.Header.Get("ETag")
					want := name == "/long.css" || name == "/short.css"
					want = want && e != "identity"
					if a.StatusCode != 200 || decode(t, a) != content || kept(a) != want {
						t.Errorf("%s, %s: %s, %v, %d bytes", name, e, a.Status, a.Header, len(a.Text))
					}
					head := s.Request("HEAD "+name, fields, "")
					if want && head.ContentLength != a.ContentLength {
						t.Errorf("%s, %s: HEAD %d, GET %d", name, e, head.ContentLength, a.ContentLength)
					}
					for _, h := range []http.Header{a.Header, was.Header, head.Header} {
						h.Del("Date")
						h.Del("Content-Length")
					}
					if fmt.Sprint(a.Header) != fmt.Sprint(was.Header) ||
						fmt.Sprint(head.Header) != fmt.Sprint(a.Header) {
						t.Errorf("%s, %s: %v\nHEAD %v\nnot kept %v", name, e, a.Header, head.Header,
							was.Header)
					}
					a = s.Request("GET "+name, append(fields, "If-None-Match: "+tag), "")
					if a.StatusCode != 304 || a.Header.Get("ETag") != tag {
						t.Errorf("%s, %s: %s, %v", name, e, a.Status, a.Header)
					}
					a = s.Request("GET "+name, append(fields, "Range: bytes=5-9"), "")
					if a.StatusCode != 206 || a.Text != content[5:10] {
						t.Errorf("%s, %s: %s, %v", name, e, a.Status, a.Header)
					}
				}
			}
		}
		if m.HTTP2 {
			return
		}
		old := "GET /long.css HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n"
		a := server.Parse(t, s.Exchange(old), "GET")[0]
		if a.Header.Get("Content-Encoding") != "" || a.Text != files["/long.css"] {
			t.Errorf("HTTP/1.0: %v", a.Header)
		}
	})
}

// What further out says that the file must be sent as it is has the last word.
func TestEncodedNoTransform(t *testing.T) {
	servefiles.SetUntouched(t, -time.Hour)
	root := t.TempDir()
	content := text(5000, 0)
	must.Do(t, os.WriteFile(root+"/a.css", []byte(content), 0o644))
	p := policy(t, 1<<20)
	h, err := build(t, handlers.Env{Process: around.In(around.Context{Compression: p})},
		func(s *servefiles.Settings) { s.Path = root })
	must.Do(t, err)
	outer := func(req *conn.Request, resp *conn.Response) int {
		resp.Layer().BeforeHead(func(req *conn.Request, resp *conn.Response, _ int) {
			if req.RawQuery() != "" {
				resp.Header().Set("Cache-Control", "no-transform")
			}
		})
		return h(req, resp)
	}
	s := module.Start(t, modes.Direct, "/", compression.Middleware(p)(outer))
	gzip := []string{"Accept-Encoding: gzip"}
	for range 2 {
		if a := s.Request("GET /a.css", gzip, ""); !kept(a) || decode(t, a) != content {
			t.Errorf("%v", a.Header)
		}
		a := s.Request("GET /a.css?x", gzip, "")
		if a.Header.Get("Content-Encoding") != "" || a.Text != content {
			t.Errorf("no-transform: %v", a.Header)
		}
	}
	s = startEncoding(t, modes.Direct, root, p, func(s *servefiles.Settings) {
		s.CacheControl = "public, no-transform"
	})
	if a := s.Request("GET /a.css", gzip, ""); a.Text != content {
		t.Errorf("no-transform of the module: %v", a.Header)
	}
}

// keyOf is under what the server looks for a file.
func keyOf(t testing.TB, path string, c coding.Coding) coding.Key {
	t.Helper()
	var st unix.Stat_t
	must.Do(t, unix.Stat(path, &st))
	return coding.Key{Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size, Modified: st.Mtim.Nano(),
		Changed: st.Ctim.Nano(), Coding: c, Level: 4}
}

// statuses is an access log of the status of each request.
type statuses struct {
	mu  sync.Mutex
	all []int
}

func (s *statuses) LogRequest(_ *loop.Loop, e *conn.AccessEntry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, e.Status)
	return true
}

func (s *statuses) HasRoom(*loop.Loop, conn.Share) bool { return true }

func (s *statuses) logged() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// All that ask for a file while it is compressed get what comes of it, also one that has only ended
// its half, which is logged as what it was. One that is killed meanwhile leaves nothing open.
func TestEncodedForMany(t *testing.T) {
	servefiles.SetUntouched(t, -time.Hour)
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		root := t.TempDir()
		content := text(100<<10, 0)
		path := filepath.Join(root, "a.css")
		must.Do(t, os.WriteFile(path, []byte(content), 0o644))
		p := policy(t, 8<<20)
		h, err := build(t, handlers.Env{Process: around.In(around.Context{Compression: p})},
			func(s *servefiles.Settings) {
				s.Path = root
			})
		must.Do(t, err)
		log := new(statuses)
		router, err := handlers.NewRouter([]handlers.Site{{Routes: []handlers.Route{
			{Prefix: "/", Handler: compression.Middleware(p)(h)}}}})
		must.Do(t, err)
		s := server.Start(t, m, conn.Config{Handler: router.Serve, AccessLog: log,
			Limits: conn.Limits{KeepAliveTimeout: 2 * wait.Patience}})
		key := keyOf(t, path, coding.Gzip)
		if _, mine := p.Cache.Get(key); !mine {
			t.Fatal("it is there")
		}
		const request = "GET /a.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"
		var all []*server.Client
		for range 20 {
			c := s.Dial()
			c.Send(request)
			all = append(all, c)
		}
		half := s.Dial()
		half.Send(request)
		half.CloseWrite()
		s.Settle() // so that the loop has seen its end
		all = append(all, half)
		p.Cache.Put(key, []byte("what has come of it"))
		for _, c := range all {
			if a := c.Answer("GET"); a.Text != "what has come of it" {
				t.Errorf("%v, %.40q", a.Header, a.Text)
			}
		}
		wait.Until(t, "all are logged", func() bool { return len(log.logged()) == len(all) })
		if got := log.logged(); slices.ContainsFunc(got, func(n int) bool { return n != 200 }) {
			t.Errorf("logged: %v", got)
		}

		key = keyOf(t, path, coding.Brotli)
		if _, mine := p.Cache.Get(key); !mine {
			t.Fatal("it is there")
		}
		for range 5 {
			s.Dial().Send(strings.Replace(request, "gzip", "br", 1))
		}
		wait.Until(t, "they wait", func() bool { return held(t, root, "a.css") > 0 })
		s.Stop(0)
		if n := held(t, root, "a.css"); n != 0 {
			t.Errorf("%d open", n)
		}
		p.Cache.Put(key, nil)
	}, modes.Plain, modes.Direct, modes.Several)
}

// A file that is replaced, or written to, or cut off is seen as it is after a second, whatever its
// time and its length say.
func TestEncodedChanges(t *testing.T) {
	servefiles.SetUntouched(t, 20*time.Millisecond)
	servefiles.SetCachedFor(t, 50*time.Millisecond)
	root := t.TempDir()
	path := filepath.Join(root, "a.css")
	content := text(50<<10, 0)
	write := func(content string) {
		must.Do(t, os.WriteFile(path, []byte(content), 0o644))
		must.Do(t, os.Chtimes(path, modified, modified))
	}
	write(content)
	s := startEncoding(t, modes.Direct, root, policy(t, 8<<20), nil)
	for i, change := range []func(content string){
		write,
		func(content string) { replace(t, path, content) },
		func(content string) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			must.Do(t, err)
			_, err = f.WriteAt([]byte(content), 0)
			must.Do(t, err)
			must.Do(t, f.Close())
			must.Do(t, os.Chtimes(path, modified, modified))
		},
	} {
		for _, n := range []int{50 << 10, 3000} {
			wait.Until(t, "it is kept", func() bool {
				a := s.Request("GET /a.css", []string{"Accept-Encoding: gzip"}, "")
				return kept(a) && decode(t, a) == content
			})
			if content = text(n, 3*i+n); i == 2 {
				content = text(50<<10, 3*i+n)
				write(content)
				content = text(50<<10, 3*i+n+1)
			}
			change(content)
		}
	}
}

// While a process writes to a file, what is kept is never a mixture of two states. If the writer is
// kept from its processor between two writes until the file counts as untouched, the file itself is
// a mixture, so what is seen around such a pass says nothing.
func TestEncodedWhileItChanges(t *testing.T) {
	const untouched = 30 * time.Millisecond
	servefiles.SetUntouched(t, untouched)
	root := t.TempDir()
	path := filepath.Join(root, "a.css")
	states := []string{text(200<<10, 0), text(200<<10, 1)}
	must.Do(t, os.WriteFile(path, []byte(states[0]), 0o644))
	s := startEncoding(t, modes.Several, root, policy(t, 8<<20), nil)
	const passes = 20
	var (
		all      sync.WaitGroup
		pass     atomic.Int32 // of the writer; 0: none yet
		slow     [passes + 1]bool
		mu       sync.Mutex
		mixtures [][2]int32 // between which passes each was asked for and seen
	)
	stop := make(chan struct{})
	for _, e := range []string{"gzip", "br", "zstd"} {
		all.Go(func() {
			c := s.Dial()
			for {
				select {
				case <-stop:
					return
				default:
				}
				first := pass.Load()
				a := c.Do("GET", "GET /a.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: "+e+"\r\n\r\n")
				last := pass.Load()
				if !kept(a) {
					continue
				}
				if got := decode(t, a); got != states[0] && got != states[1] {
					mu.Lock()
					mixtures = append(mixtures, [2]int32{first, last})
					mu.Unlock()
				}
			}
		})
	}
	for i := range passes {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		must.Do(t, err)
		pass.Add(1)
		began := time.Now()
		for at := 0; at < len(states[0]); at += 40 << 10 {
			_, err = f.WriteAt([]byte(states[i%2][at:at+40<<10]), int64(at))
			must.Do(t, err)
		}
		slow[i+1] = time.Since(began) >= untouched/2
		must.Do(t, f.Close())
		must.Do(t, os.Chtimes(path, modified, modified))
		time.Sleep(time.Duration(i) * 4 * time.Millisecond) // some are long enough for it to be kept
	}
	close(stop)
	all.Wait()
	for _, m := range mixtures {
		if !slices.Contains(slow[m[0]:m[1]+1], true) {
			t.Errorf("a mixture was kept, in passes %d to %d", m[0], m[1])
		}
	}
}

// The files of an embed.FS are kept, too, and those that a worker reads whole.
func TestEncodedFS(t *testing.T) {
	servefiles.SetUntouched(t, -time.Hour)
	for name, fsys := range sources(t) {
		p := policy(t, 1<<20)
		p.MinSize = 1
		for range 2 { // each handler has its own
			settings := servefiles.Defaults
			h, err := servefiles.FS(fsys, settings,
				handlers.Env{Process: around.In(around.Context{Compression: p})})
			must.Do(t, err)
			s := module.Start(t, modes.Direct, "/", compression.Middleware(p)(h))
			want := s.Request("GET /", nil, "").Text
			for range 3 {
				a := s.Request("GET /", []string{"Accept-Encoding: gzip"}, "")
				if decode(t, a) != want || kept(a) != (name != "memory") || want == "" {
					t.Errorf("%s: %v, %q", name, a.Header, a.Text)
				}
			}
		}
	}
}

// What is kept costs no memory for each request but that of its entity tag.
func TestEncodedAllocations(t *testing.T) {
	servefiles.SetUntouched(t, -time.Hour)
	root := t.TempDir()
	for name, n := range map[string]int{"long.css": 100 << 10, "short.css": 5000} {
		must.Do(t, os.WriteFile(filepath.Join(root, name), []byte(text(n, 0)), 0o644))
		must.Do(t, os.Chtimes(filepath.Join(root, name), modified, modified))
	}
	s := startEncoding(t, modes.Direct, root, policy(t, 8<<20), nil)
	for _, name := range []string{"long.css", "short.css"} {
		if n := s.Allocs("GET /" + name + " HTTP/1.1\r\nHost: a\r\n" +
			"Accept-Encoding: gzip, deflate, br, zstd\r\n\r\n"); n > 1 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// BenchmarkEncoded asks for 100 KiB of text, gzipped: kept, compressed each time, as a sibling, and
// as it is.
func BenchmarkEncoded(b *testing.B) {
	servefiles.SetUntouched(b, -time.Hour)
	root := b.TempDir()
	content := []byte(text(100<<10, 0))
	for _, name := range []string{"a.css", "b.css"} {
		must.Do(b, os.WriteFile(filepath.Join(root, name), content, 0o644))
		must.Do(b, os.Chtimes(filepath.Join(root, name), modified, modified))
	}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(content)
	must.Do(b, err)
	must.Do(b, w.Close())
	must.Do(b, os.WriteFile(filepath.Join(root, "b.css.gz"), z.Bytes(), 0o644))
	for _, c := range []struct {
		name, path, accept string
		cache              int64
	}{
		{"kept", "/a.css", "gzip", 8 << 20},
		{"anew", "/a.css", "gzip", 0},
		{"sibling", "/b.css", "gzip", 8 << 20},
		{"as it is", "/a.css", "", 8 << 20},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := startEncoding(b, modes.Direct, root, policy(b, c.cache), nil)
			raw := "GET " + c.path + " HTTP/1.1\r\nHost: a\r\nAccept-Encoding: " + c.accept + "\r\n\r\n"
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
		})
	}
}
