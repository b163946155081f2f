package cache_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
)

var requests = flag.Int("requests", 1500, "how many requests TestNothingForeign sends")

// content is the body of a version of a page: its bytes follow from both, and its size as well.
func content(page string, version uint32) []byte {
	var seed [32]byte
	copy(seed[:], page)
	binary.LittleEndian.PutUint32(seed[28:], version)
	r := rand.NewChaCha8(seed)
	size := int(r.Uint64() % 2000)
	switch r.Uint64() % 8 {
	case 0:
		size = int(r.Uint64() % 200_000)
	case 1, 2:
		size = 0
	}
	b := make([]byte, size)
	_, _ = r.Read(b)
	return b
}

// restless answers in all the ways there are, by chance: whole, in pieces, cut, late, private, with
// and without a length, in variants.
func restless(version *atomic.Uint32) conn.Handler {
	return func(req *conn.Request, w *conn.Response) int {
		if req.Method() == "POST" {
			return 204
		}
		page, v := req.Path(), version.Add(1)
		h := w.Header()
		h.Set("X-Page", page)
		h.Set("X-Version", strconv.Itoa(int(v)))
		h.Set("X-For", req.Header().Get("Accept-Language"))
		h.Set("ETag", fmt.Sprintf(`"%s-%d"`, page, v))
		control := [...]string{"max-age=1", "max-age=100", "max-age=0, stale-while-revalidate=5",
			"no-cache",
			"private", "max-age=1, stale-if-error=10"}
		h.Set("Cache-Control", control[rand.IntN(len(control))])
		if strings.HasPrefix(page, "/vary") {
			h.Set("Vary", "Accept-Language")
		}
		if rand.IntN(4) == 0 && req.Sleep(time.Duration(rand.IntN(2000))*time.Microsecond) != nil {
			return 0
		}
		if tag := req.Header().Get("If-None-Match"); tag != "" && rand.IntN(2) == 0 {
			h.Set("ETag", tag)
			h.Del("X-Version") // it is still the old one
			return 304
		}
		b := content(page, v)
		h.Set("X-Size", strconv.Itoa(len(b)))
		switch rand.IntN(6) {
		case 0: // whole
			w.SetBody(b)
			return 200
		case 1:
			h.Set("Content-Length", strconv.Itoa(len(b)))
		case 2:
			if rand.IntN(2) == 0 {
				return 503
			}
		}
		cut := rand.IntN(6) == 0
		for len(b) > 0 {
			n := min(1+rand.IntN(50_000), len(b))
			if _, err := w.Write(b[:n]); err != nil {
				return 200
			}
			b = b[n:]
			if cut && rand.IntN(3) == 0 {
				w.Abort()
				return 200
			}
			if rand.IntN(4) == 0 {
				_ = w.Flush()
			}
			if rand.IntN(8) == 0 && req.Sleep(time.Duration(rand.IntN(1000))*time.Microsecond) != nil {
				w.Abort()
				return 200
			}
		}
		return 200
	}
}

// TestNothingForeign: whatever becomes of the handler and of other clients, a complete answer has
// all of one version of the page that was asked for, and of the variant.
func TestNothingForeign(t *testing.T) {
	for _, buffering := range []bool{false, true} {
		t.Run(fmt.Sprint("buffering: ", buffering), func(t *testing.T) { testNothingForeign(t, buffering) })
	}
}

func testNothingForeign(t *testing.T, buffering bool) {
	var version atomic.Uint32
	s := startAs(t, modes.Several, cache.Settings{Lock: new(50 * time.Millisecond)},
		restless(&version), buffering)
	var left, complete, hits atomic.Int64
	left.Store(int64(*requests))
	var all sync.WaitGroup
	clients := 16
	if *requests > 100_000 { // most of the time they wait
		clients = 64
	}
	for range clients {
		all.Go(func() {
			var c net.Conn
			var in *bufio.Reader
			defer func() {
				if c != nil {
					c.Close()
				}
			}()
			for left.Add(-1) >= 0 {
				if rand.IntN(200) == 0 {
					s.Skip(time.Duration(rand.IntN(12_000)) * time.Millisecond)
				}
				if c == nil {
					var err error
					if c, err = net.Dial("tcp", s.Addr); err != nil {
						t.Error(err)
						return
					}
					in = bufio.NewReader(c)
				}
				_ = c.SetDeadline(time.Now().Add(wait.Patience))
				page, language, method := fmt.Sprintf("/page%d", rand.IntN(6)), "", "GET"
				if rand.IntN(3) == 0 {
					page, language = fmt.Sprintf("/vary%d",
						rand.IntN(3)), [...]string{"de", "en", "fr"}[rand.IntN(3)]
				}
				extra := ""
				switch rand.IntN(12) {
				case 0:
					method = "HEAD"
				case 1:
					method, extra = "POST", "Content-Length: 0\r\n"
				case 2:
					extra = "Cache-Control: no-cache\r\n"
				case 3, 4:
					extra = fmt.Sprintf("Range: bytes=%d-%d\r\n", rand.IntN(500), 500+rand.IntN(100_000))
				}
				if language != "" {
					extra += "Accept-Language: " + language + "\r\n"
				}
				fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: h\r\n%s\r\n", method, page, extra)
				if rand.IntN(10) == 0 { // it leaves
					if rand.IntN(2) == 0 {
						_, _ = in.Read(make([]byte, 1+rand.IntN(50_000)))
					}
					c.Close()
					c = nil
					continue
				}
				resp, err := http.ReadResponse(in, &http.Request{Method: method})
				var body []byte
				if err == nil {
					body, err = io.ReadAll(resp.Body)
				}
				if err != nil { // it was cut
					c.Close()
					c = nil
					continue
				}
				if resp.Close {
					c.Close()
					c = nil
				}
				check(t, resp, method, page, language, body)
				complete.Add(1)
				if strings.Contains(resp.Header.Get("Cache-Status"), "; hit") {
					hits.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := int64(*requests); complete.Load() < n/4 || hits.Load() < n/50 {
		t.Errorf("of %d requests %d were answered, %d from the cache", n, complete.Load(), hits.Load())
	}
	wait.Until(t, "the end of all fills", func() bool { return s.stats().Filling == 0 })
}

// check looks at a complete answer.
func check(t *testing.T, resp *http.Response, method, page, language string, body []byte) {
	t.Helper()
	h := resp.Header
	switch {
	case resp.StatusCode == 204 && method == "POST", resp.StatusCode == 503, resp.StatusCode == 304,
		resp.StatusCode == 416,
		resp.StatusCode == 502:
		return
	case h.Get("X-Page") != page:
		t.Errorf("%s: an answer of %s", page, h.Get("X-Page"))
		return
	case h.Get("X-For") != language && (h.Get("Vary") != "" || language == ""):
		t.Errorf("%s for %q: an answer for %q", page, language, h.Get("X-For"))
	}
	v, err := strconv.ParseUint(h.Get("X-Version"), 10, 32)
	if err != nil {
		t.Errorf("%s: %d, %v", page, resp.StatusCode, h)
		return
	}
	want := content(page, uint32(v))
	switch {
	case method == "HEAD":
		return
	case resp.StatusCode == 206:
		var from, to, size int
		if _, err := fmt.Sscanf(h.Get("Content-Range"), "bytes %d-%d/%d", &from, &to,
			&size); err != nil ||
			size != len(want) || to >= size {
			t.Errorf("%s: Content-Range: %s, of %d", page, h.Get("Content-Range"), len(want))
			return
		}
		want = want[from : to+1]
	case resp.StatusCode != 200:
		t.Errorf("%s: %s", page, resp.Status)
		return
	}
	if !bytes.Equal(body, want) {
		t.Errorf("%s, version %d, %s: %d bytes, want %d; %s", page, v, resp.Status, len(body), len(want),
			h.Get("Cache-Status"))
	}
}
