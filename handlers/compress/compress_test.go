package compress_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/compress"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/modules/compression"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
)

var encodings = []string{"gzip", "br", "zstd", "identity"}

// TestSources: every source of a body, in every coding, in several sizes, comes out as it went in.
func TestSources(t *testing.T) {
	all := sources(t)
	dir := t.TempDir()
	bridges := map[string]func(w http.ResponseWriter, text string){
		"http": func(w http.ResponseWriter, text string) { io.WriteString(w, text) },
		"http in pieces": func(w http.ResponseWriter, text string) {
			r := &dull{Reader: strings.NewReader(text)}
			for p := make([]byte, 20<<10); ; {
				n, err := r.Read(p)
				if err != nil {
					return
				}
				w.Write(p[:n])
				if n%3 == 0 {
					w.(http.Flusher).Flush()
				}
			}
		},
		"http file": func(w http.ResponseWriter, text string) {
			name := filepath.Join(dir, strconv.Itoa(len(text)))
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				panic(err)
			}
			f, err := os.Open(name)
			if err != nil {
				panic(err)
			}
			defer f.Close()
			w.Header().Set("Content-Type", "text/plain")
			io.Copy(w, f)
		},
	}
	largest := 300 << 10
	if race.Enabled {
		largest = 100 << 10
	}
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		sizes := map[string]string{}
		for _, n := range []int{0, 1023, 1024, 5000, 33 << 10, largest} {
			sizes[strconv.Itoa(n)] = prose(n)
		}
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			q := req.Query()
			text := sizes[q.Get("n")]
			if set := all[q.Get("from")]; set != nil {
				resp.Header().Set("Content-Type", "text/plain")
				set(resp, text)
				return 200
			}
			h := bridge(bridges[q.Get("from")], text)
			if q.Get("loop") != "" {
				return conn.HTTPOnLoop(h)(req, resp)
			}
			return conn.HTTP(h)(req, resp)
		})
		names := []string{}
		for name := range all {
			names = append(names, name)
		}
		for name := range bridges {
			names = append(names, name, name+"&loop=1")
		}
		for _, from := range names {
			target := "/?from=" + strings.ReplaceAll(from, " ", "+")
			for n, text := range sizes {
				for _, e := range encodings {
					a := s.Request("GET "+target+"&n="+n, []string{"Accept-Encoding: " + e}, "")
					got := a.Header.Get("Content-Encoding")
					if a.StatusCode != 200 || decode(t, a) != text {
						t.Errorf("%s, %s bytes, %s: %s, %v", from, n, e, a.Status, a.Header)
					}
					whole := !strings.Contains(from, "pieces") && from != "reader" &&
						from != "http file&loop=1" // which is streamed
					switch want := e; {
					case e == "identity" || whole && len(text) < 1024:
						if got != "" {
							t.Errorf("%s, %s bytes, %s: %v", from, n, e, a.Header)
						}
					case len(text) >= 5000 && (got != want || len(a.Text) > len(text)/2 ||
						a.Header.Get("Vary") != "Accept-Encoding" || a.ContentLength >= 0):
						t.Errorf("%s, %s bytes, %s: %d, %v", from, n, e, len(a.Text), a.Header)
					}
				}
			}
		}
	}, modes.Direct, modes.OverTLS)
}

// TestWhichResponses: which responses are compressed, and what their headers say then.
func TestWhichResponses(t *testing.T) {
	text := prose(5000)
	const plain = "Content-Type: text/plain"
	for _, tt := range []struct {
		request string // further lines
		status  int
		header  string // of the handler
		want    string // Content-Encoding, Vary, ETag
		why     string
	}{
		{"Accept-Encoding: gzip", 200, plain, "gzip|Accept-Encoding|", ""},
		{"Accept-Encoding: gzip\r\nAccept-Encoding: br", 200, plain, "br|Accept-Encoding|", "two fields"},
		{"Accept-Encoding: " + strings.Repeat("gzip;q=0.5, ", 680) + "*;q=0", 200, plain,
			"gzip|Accept-Encoding|", "8 kB"},
		{"", 200, plain, "|Accept-Encoding|", "caches have to know all the same"},
		{"Accept-Encoding:", 200, plain, "|Accept-Encoding|", ""},
		{"Accept-Encoding: identity;q=0", 200, plain, "|Accept-Encoding|", ""},
		{"Accept-Encoding: gzip", 404, plain, "gzip|Accept-Encoding|", "errors, too"},
		{"Accept-Encoding: gzip", 200, "", "gzip|Accept-Encoding|", "the server says text/plain"},
		{"Accept-Encoding: gzip", 200, "Content-Type: image/png", "||", ""},
		{"Accept-Encoding: gzip", 206, plain, "|Accept-Encoding|", "as the 200"},
		{"", 206, plain, "|Accept-Encoding|", ""},
		{"", 206, "Content-Type: multipart/byteranges; boundary=a", "|Accept-Encoding|", "of any type"},
		{"Accept-Encoding: gzip", 206, "Content-Type: image/png", "||", ""},
		{"Accept-Encoding: gzip", 200, plain + "\nContent-Range: bytes 0-1/2", "||", ""},
		{"Accept-Encoding: gzip", 200, plain + "\nContent-Encoding: br", "br|Accept-Encoding|",
			"encoded already"},
		{"Accept-Encoding: gzip", 200, "Content-Type: image/png\nContent-Encoding: br", "br||", ""},
		{"Accept-Encoding: gzip", 200, plain + "\nCache-Control: public, No-Transform", "||", ""},
		{"Accept-Encoding: gzip", 200, plain + "\nContent-Digest: sha-256=:x:", "||", ""},
		{"Accept-Encoding: gzip", 200, plain + "\nContent-MD5: x", "||", ""},
		{"Accept-Encoding: gzip", 200, plain + "\nRepr-Digest: x", "||", ""},
		{"Accept-Encoding: gzip", 200, plain + "\nDigest: x", "||", ""},
		{"Accept-Encoding: gzip", 200, plain + "\nVary: Cookie", "gzip|Cookie, Accept-Encoding|", ""},
		{"Accept-Encoding: gzip", 200, plain + "\nVary: Cookie, accept-encoding",
			"gzip|Cookie, accept-encoding|", ""},
		{"Accept-Encoding: gzip", 200, plain + "\nVary: *", "gzip|*|", ""},
		{"Accept-Encoding: gzip", 200, plain + "\nETag: \"a\"", `gzip|Accept-Encoding|"a-gzip"`, ""},
		{"Accept-Encoding: gzip", 200, plain + "\nETag: W/\"a\"", `gzip|Accept-Encoding|W/"a"`, ""},
		{"", 200, plain + "\nETag: \"a\"", `|Accept-Encoding|"a"`, ""},
		{"Accept-Encoding: gzip", 200, plain + "\nAccept-Ranges: bytes", "gzip|Accept-Encoding|", ""},
		{"Accept-Encoding: gzip", 304, "ETag: \"a\"", `|Accept-Encoding|"a"`, ""},
		{"If-None-Match: W/\"a\"", 304, "ETag: \"a\"", `|Accept-Encoding|"a"`, ""},
		{"If-None-Match: W/\"b\"", 304, "ETag: \"a\"", `|Accept-Encoding|"a"`, ""},
		{"Accept-Encoding: br, gzip", 200, "Content-Type: text/event-stream", "||", "unless it is named"},
	} {
		s := start(t, modes.Direct, func(_ *conn.Request, resp *conn.Response) int {
			for line := range strings.SplitSeq(tt.header, "\n") {
				if name, value, ok := strings.Cut(line, ": "); ok {
					resp.Header().Add(name, value)
				}
			}
			if tt.status != 304 {
				resp.SetBody([]byte(text))
			}
			return tt.status
		})
		var fields []string
		if tt.request != "" {
			fields = []string{tt.request}
		}
		a := s.Request("GET /", fields, "")
		got := fmt.Sprintf("%s|%s|%s", a.Header.Get("Content-Encoding"),
			strings.Join(a.Header["Vary"], ", "), a.Header.Get("ETag"))
		if a.StatusCode != tt.status || got != tt.want {
			t.Errorf("%.60q, %d, %q: got %s, want %s %s", tt.request, tt.status, tt.header, got, tt.want,
				tt.why)
		}
		if a.Header.Get("Content-Encoding") == "gzip" {
			if a.Header.Get("Accept-Ranges") != "" || decode(t, a) != text {
				t.Errorf("%q: %v", tt.header, a.Header)
			}
		}
		head := s.Request("HEAD /", fields, "")
		head.Header.Del("Date")
		a.Header.Del("Date")
		if fmt.Sprint(head.StatusCode, head.Header, head.TransferEncoding) !=
			fmt.Sprint(a.StatusCode, a.Header, a.TransferEncoding) {
			t.Errorf("HEAD: %v %v, GET: %v %v", head.Header, head.TransferEncoding, a.Header,
				a.TransferEncoding)
		}
	}
}

// TestVaryBehindRules: what a rule of the site does to Vary takes Accept-Encoding from nothing that
// a cache must not give to all.
func TestVaryBehindRules(t *testing.T) {
	const plain = "Content-Type: text/plain"
	for _, tt := range []struct {
		why    string
		own    bool // the route has a compression of its own
		status int
		header string
	}{
		{"precompressed", false, 200, plain + "\nContent-Encoding: br\nVary: Accept-Encoding"},
		{"precompressed", true, 200, plain + "\nContent-Encoding: br\nVary: Accept-Encoding"},
		{"a part", true, 206, plain + "\nContent-Encoding: br\nVary: Accept-Encoding"},
		{"parts", true, 206, "Content-Type: multipart/byteranges; boundary=a\nContent-Encoding: br"},
		{"encoded here", false, 200, plain},
		{"encoded by the route", true, 200, plain},
		{"not modified", false, 304, "ETag: \"a\""},
		{"not modified", true, 304, "ETag: \"a\""},
	} {
		handler := func(_ *conn.Request, resp *conn.Response) int {
			for line := range strings.SplitSeq(tt.header, "\n") {
				name, value, _ := strings.Cut(line, ": ")
				resp.Header().Add(name, value)
			}
			if tt.status != 304 {
				resp.SetBody([]byte(prose(5000)))
			}
			return tt.status
		}
		if tt.own {
			handler = middleware(t, nil)(handler)
		}
		for _, vary := range []string{"", "Origin"} {
			s := start(t, modes.Direct, func(req *conn.Request, resp *conn.Response) int {
				resp.Layer().BeforeHead(func(_ *conn.Request, resp *conn.Response, _ int) {
					resp.Header().Del("Vary")
					if vary != "" {
						resp.Header().Add("Vary", vary)
					}
				})
				return handler(req, resp)
			})
			a := s.Request("GET /", []string{"Accept-Encoding: gzip"}, "")
			want := strings.TrimPrefix(vary+", Accept-Encoding", ", ")
			if got := strings.Join(a.Header["Vary"], ", "); a.StatusCode != tt.status || got != want {
				t.Errorf("%s, %v: %s, Vary: %s, want %s", tt.why, tt.own, a.Status, got, want)
			}
		}
	}
}

// TestOldClients: a client of HTTP/1.0 would see the end of the body at the end of the connection.
func TestOldClients(t *testing.T) {
	text := prose(5000)
	s := start(t, modes.Direct, func(_ *conn.Request, resp *conn.Response) int {
		io.WriteString(resp, text)
		return 200
	})
	c := s.Dial()
	for range 2 {
		a := c.Do("GET", "GET / HTTP/1.0\r\nConnection: keep-alive\r\nAccept-Encoding: gzip\r\n\r\n")
		if a.Text != text || a.Header.Get("Vary") != "Accept-Encoding" {
			t.Error(a.Status, a.Header)
		}
	}
}

// TestInnermostDecides: a route's settings come before those of its site, also if they say no.
func TestInnermostDecides(t *testing.T) {
	text := prose(5000)
	site := middleware(t, nil)
	small := middleware(t, func(s *compress.Settings) { s.Types = []string{"text/css"} })
	gzipOnly := middleware(t, func(s *compress.Settings) { s.Encodings = []string{"gzip"} })
	h := func(_ *conn.Request, resp *conn.Response) int {
		resp.Header().Set("Content-Type", "text/html")
		io.WriteString(resp, text)
		return 200
	}
	for want, h := range map[string]conn.Handler{
		"br":   site(h),
		"":     site(compression.Middleware(nil)(h)),
		"gzip": site(gzipOnly(h)),
	} {
		s := module.Start(t, modes.Direct, "/", h)
		a := s.Request("GET /", []string{"Accept-Encoding: gzip, br"}, "")
		if a.Header.Get("Content-Encoding") != want || decode(t, a) != text {
			t.Errorf("want %q: %v", want, a.Header)
		}
	}
	s := module.Start(t, modes.Direct, "/", site(small(h)))
	if a := s.Request("GET /", []string{"Accept-Encoding: gzip, br"}, ""); a.Text != text {
		t.Errorf("%v", a.Header)
	}
}

// TestClients are curl and net/http.
func TestClients(t *testing.T) {
	text := prose(200 << 10)
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := start(t, m, func(_ *conn.Request, resp *conn.Response) int {
			io.WriteString(resp, text)
			return 200
		})
		resp := must.Get(http.Get("http://" + s.Addr + "/"))(t)
		defer resp.Body.Close()
		defer http.DefaultClient.CloseIdleConnections()
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != text || !resp.Uncompressed {
			t.Errorf("net/http: %d bytes, %v, %v", len(body), err, resp.Header)
		}
		curl, err := exec.LookPath("curl")
		if err != nil {
			ci.Lacks(t, "curl")
		}
		for _, args := range [][]string{{"--compressed"}, {"--compressed", "-0"}, {}} {
			out, err := exec.Command(curl, append(args, "-sS", "http://"+s.Addr+"/")...).CombinedOutput()
			if err != nil || string(out) != text {
				t.Errorf("curl %q: %v, %.300q", args, err, out)
			}
		}
	}, modes.Direct)
}

// TestLookIsFree: what is not compressed costs no memory.
func TestLookIsFree(t *testing.T) {
	ci.Without(t, invariants.Enabled, "short reads and writes")
	small, large := []byte("Hello, world!"), bytes.Repeat([]byte("x"), 5000)
	s := start(t, modes.Direct, func(req *conn.Request, resp *conn.Response) int {
		h := resp.Header()
		switch string(req.Layer().PathView()) {
		case "/small":
			h.Set("Content-Type", "text/plain")
			resp.SetBody(small)
		case "/image":
			h.Set("Content-Type", "image/png")
			resp.SetBody(large)
		case "/text":
			h.Set("Content-Type", "text/plain")
			resp.SetBody(large)
		}
		return 200
	})
	const head = " HTTP/1.1\r\nHost: a\r\n"
	for _, raw := range []string{
		"GET /small" + head + "Accept-Encoding: gzip, deflate, br, zstd\r\n\r\n",
		"GET /image" + head + "Accept-Encoding: gzip, deflate, br, zstd\r\n\r\n",
		"GET /text" + head + "\r\n",
		"GET /text" + head + "Accept-Encoding: gzip;q=0.5, identity\r\n\r\n",
	} {
		if n := s.Allocs(raw); n != 0 {
			t.Errorf("%q: %v allocations", raw, n)
		}
	}
}

func TestErrors(t *testing.T) {
	for want, change := range map[string]func(*compress.Settings){
		"encodings: expected at least one; `compression = false` turns it off": func(
			s *compress.Settings) {
			s.Encodings = []string{}
		},
		`encodings: expected zstd, br or gzip, not "deflate"`: func(s *compress.Settings) {
			s.Encodings = []string{"gzip", "deflate"}
		},
		`encodings: expected zstd, br or gzip, not "identity"`: func(s *compress.Settings) {
			s.Encodings = []string{"identity"}
		},
		`encodings: gzip: named twice`: func(s *compress.Settings) {
			s.Encodings = []string{"gzip", "br", "gzip"}
		},
		`types: expected a media type such as "text/css", "text/*" or "*+json", not "html"`: func(
			s *compress.Settings) {
			s.Types = []string{"text/*", "html"}
		},
	} {
		s := compress.Defaults
		change(&s)
		_, err := s.Middleware()
		var bad *handlers.KeyError
		if !errors.As(err, &bad) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
