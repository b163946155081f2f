package conn_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/http/pprof"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

// files makes a folder to serve.
func files(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"index.html":   "<html>index",
		"a.txt":        "0123456789",
		"sub/page":     "<html>untyped",
		"large.bin":    strings.Repeat("0123456789abcdef", 200<<10/16),
		"empty":        "",
		"sub/b space.": "x",
	} {
		name = filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.Do(t, os.WriteFile(name, []byte(text), 0o644))
		must.Do(t, os.Chtimes(name, time.Time{}, time.Unix(1e9, 0)))
	}
	return dir
}

// TestBridgeFileServer compares the standard library's file server with itself under net/http.
func TestBridgeFileServer(t *testing.T) {
	h := http.StripPrefix("/files", http.FileServer(http.Dir(files(t))))
	addr := reference(t, h)
	requests := []string{
		"GET /files/ HTTP/1.1", "GET /files/index.html HTTP/1.1", "GET /files/a.txt HTTP/1.1",
		"GET /files/none HTTP/1.1",
		"GET /files/sub HTTP/1.1", "GET /files/sub/ HTTP/1.1", "GET /files/sub/page HTTP/1.1",
		"GET /files/sub/b%20space. HTTP/1.1",
		"GET /files/large.bin HTTP/1.1", "GET /files/empty HTTP/1.1", "GET /elsewhere HTTP/1.1",
		"POST /files/a.txt HTTP/1.1",
		"GET /files/../files/a.txt HTTP/1.1", "GET /files/large.bin HTTP/1.0",
		"GET /files/a.txt HTTP/1.1\r\nRange: bytes=2-4",
		"GET /files/a.txt HTTP/1.1\r\nRange: bytes=-3",
		"GET /files/large.bin HTTP/1.1\r\nRange: bytes=100000-",
		"GET /files/a.txt HTTP/1.1\r\nRange: bytes=20-",
		"GET /files/a.txt HTTP/1.1\r\nRange: bytes=1-2\r\nIf-Range: Sun, 09 Sep 2001 01:46:40 GMT",
		"GET /files/a.txt HTTP/1.1\r\nRange: bytes=1-2\r\nIf-Range: Sun, 09 Sep 2001 01:46:39 GMT",
		"GET /files/a.txt HTTP/1.1\r\nIf-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT",
		"GET /files/a.txt HTTP/1.1\r\nIf-Unmodified-Since: Sun, 09 Sep 2001 01:46:39 GMT",
	}
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(h)})
		for _, raw := range requests {
			for _, method := range []string{"GET", "HEAD"} {
				raw := strings.Replace(raw, "GET", method, 1) +
					"\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"
				c := must.Get(net.Dial("tcp", addr))(t)
				want := ask(t, c, method, raw)
				got := ask(t, s.Dial(), method, raw)
				if got.ContentLength != want.ContentLength {
					t.Errorf("%s: length %d, net/http: %d", raw, got.ContentLength,
						want.ContentLength)
				}
				sameAsReference(t, raw, got, want)
			}
		}
		a := s.Dial().Do("GET",
			"GET /files/a.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2,4-5\r\n\r\n")
		_, boundary, _ := strings.Cut(a.Header.Get("Content-Type"), "boundary=")
		mr := multipart.NewReader(strings.NewReader(a.Text), boundary)
		for _, want := range []string{"12", "45"} {
			part := must.Get(mr.NextPart())(t)
			if got, _ := io.ReadAll(part); string(got) != want {
				t.Errorf("part %q", got)
			}
		}
	}, http1...)
}

// TestBridgeSendsFiles: on the loop what is copied from a file is sent, and nothing is lost or
// doubled beside it.
func TestBridgeSendsFiles(t *testing.T) {
	name := filepath.Join(files(t), "large.bin")
	data := must.Get(os.ReadFile(name))(t)
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			f, err := os.Open(name)
			if err != nil {
				panic(err)
			}
			defer f.Close()
			w.Header().Set("Content-Type", "a/b")
			if r.URL.Query().Has("length") {
				w.Header().Set("Content-Length", fmt.Sprint(5+1000+100000+3))
			}
			io.WriteString(w, "begin")
			f.Seek(10, io.SeekStart)
			n1, err1 := io.CopyN(w, f, 1000)
			n2, err2 := io.CopyN(w, f, 100000)
			pos, _ := f.Seek(0, io.SeekCurrent)
			if n1 != 1000 || n2 != 100000 || err1 != nil || err2 != nil || pos != 101010 {
				t.Errorf("%d %v, %d %v, at %d", n1, err1, n2, err2, pos)
			}
			io.WriteString(w, "end")
			if _, err := io.CopyN(w, f, 1); r.URL.Query().Has("length") &&
				err != http.ErrContentLength {
				t.Errorf("too much: %v", err)
			}
		}))})
		c := s.Dial()
		want := "begin" + string(data[10:101010]) + "end"
		if a := c.Do("GET", "GET /?length HTTP/1.1\r\nHost: a\r\n\r\n"); a.Text != want {
			t.Errorf("%s", clip(a.Text))
		}
		if a := c.Do("GET", get); a.Text != want+string(data[101010]) {
			t.Errorf("%s", clip(a.Text))
		}
		if a := c.Do("HEAD", "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"); a.StatusCode != 200 {
			t.Errorf("%s", a.Status)
		}
		if a := c.Do("GET", get); a.StatusCode != 200 {
			t.Errorf("%s", a.Status)
		}
	})
}

// TestBridgeSendsWholeFiles: io.Copy, too, sends a file by itself on the loop, in one chunk and not
// in a buffer's pieces.
func TestBridgeSendsWholeFiles(t *testing.T) {
	const size = 100_000
	name := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(name, chacha(size), 0o600))
	run(t, func(t *testing.T, m mode) {
		s := start(t, m,
			conn.Config{Handler: conn.HTTPOnLoop(http.HandlerFunc(func(w http.ResponseWriter,
				r *http.Request) {
				w.Header().Set("Content-Type", "a/b")
				f, err := os.Open(name)
				if err != nil {
					panic(err)
				}
				defer f.Close()
				n, err := io.Copy(w, f)
				if pos, _ := f.Seek(0, io.SeekCurrent); n != size || err != nil || pos != size {
					t.Errorf("%d %v, at %d", n, err, pos)
				}
			}))})
		got := s.Exchange(getAndClose)
		if !strings.Contains(got, fmt.Sprintf("\r\n\r\n%x\r\n", size)) {
			t.Errorf("%q", clip(got))
		}
		if a := parse(t, got, "GET")[0]; a.Text != string(chacha(size)) {
			t.Errorf("%d bytes, or others", len(a.Text))
		}
	}, http1...)
}

// proxy makes a reverse proxy; its own connections end with the test.
func proxy(t *testing.T, m mode, to string) *httputil.ReverseProxy {
	scheme := "http"
	if m.TLS {
		scheme = "https"
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: scheme, Host: to})
			r.SetXForwarded()
		},
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	}
}

// origin is what stands behind a proxy.
var origin = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/hello":
		w.Header().Set("Date", "then")
		w.Header().Set("X-For", r.Header.Get("X-Forwarded-For"))
		io.WriteString(w, "Hello")
	case "/early":
		w.Header().Set("Link", "</a>")
		w.WriteHeader(103)
		w.WriteHeader(404)
	case "/echo":
		echoing(w, r)
	case "/trailer":
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "body")
		w.(http.Flusher).Flush()
		w.Header().Set("X-Sum", "1")
	case "/cut":
		io.WriteString(w, strings.Repeat("x", 10000))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
})

// TestBridgeReverseProxy: the standard library's proxy, before net/http and before this very
// server, on whose loops the proxied requests run.
func TestBridgeReverseProxy(t *testing.T) {
	up := reference(t, origin)
	run(t, func(t *testing.T, m mode) {
		for _, before := range []string{"net/http", "a handler off the loop",
			"a handler on the loop"} {
			s := start(t, m, conn.Config{Handler: hello})
			to, behind := proxy(t, m, s.Addr), conn.HTTP(origin)
			switch before {
			case "net/http":
				to = proxy(t, plain, up)
			case "a handler on the loop":
				behind = conn.HTTPOnLoop(origin)
			}
			front := conn.HTTP(to)
			s.Configure(conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
				if _, proxied := req.Layer().HeaderView("X-Forwarded-For"); proxied {
					return behind(req, resp)
				}
				return front(req, resp)
			}})
			t.Run(before, func(t *testing.T) { throughProxy(t, s) })
			s.Stop(time.Second)
		}
	})
}

func throughProxy(t *testing.T, s *site) {
	c := server.NewClient(t, s.Dial().Conn)
	for range 3 {
		a := c.Do("GET", "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
		if a.Text != "Hello" || a.Header.Get("Date") != "then" ||
			a.Header.Get("X-For") != "127.0.0.1" {
			t.Errorf("hello: %q %v", a.Text, a.Header)
		}
	}
	if a := c.Do("GET", "GET /early HTTP/1.1\r\nHost: a\r\n\r\n"); a.StatusCode != 103 ||
		a.Header.Get("Link") != "</a>" {
		t.Errorf("early: %v", a.Response)
	}
	if a := c.Answer("GET"); a.StatusCode != 404 {
		t.Errorf("after early: %v", a.Response)
	}

	a := c.Do("POST",
		"POST /trailer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n")
	if a.Text != "body" || a.Trailer.Get("X-Sum") != "1" {
		t.Errorf("trailer: %q %v", a.Text, a.Trailer)
	}

	send(t, c, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n")
	piece := bytes.Repeat([]byte("0123456789"), 10000)
	var resp *http.Response
	for i := range 3 {
		send(t, c, string(piece))
		if i == 0 {
			var err error
			if resp, err = http.ReadResponse(c.R, nil); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, len(piece))
		if _, err := io.ReadFull(resp.Body, got); err != nil || !bytes.Equal(got, piece) {
			t.Fatalf("echo: %v", err)
		}
	}
	if got := rest(t, resp.Body); got != "" {
		t.Errorf("echo: %q", clip(got))
	}

	send(t, c, "GET /cut HTTP/1.1\r\nHost: a\r\n\r\n")
	resp = must.Get(http.ReadResponse(c.R, nil))(t)
	if got, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("cut: %d bytes without an error", len(got))
	}
	c.Close() // a stop waits for it
}

// TestBridgeBehindHTTPClient: net/http's own client finds nothing to complain about.
func TestBridgeBehindHTTPClient(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(origin)})
		p := httptest.NewServer(proxy(t, m, s.Addr))
		defer p.Close()
		for range 3 {
			resp := must.Get(http.Get(p.URL + "/hello"))(t)
			if got := rest(t, resp.Body); got != "Hello" {
				t.Errorf("%q", got)
			}
			resp.Body.Close()
		}
		http.DefaultClient.CloseIdleConnections()
	})
}

// TestBridgePprof: profiles come through, those that take their time as well.
func TestBridgePprof(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		mux := http.NewServeMux()
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		s := start(t, m,
			conn.Config{Limits: conn.Limits{WriteTimeout: time.Second}, Handler: conn.HTTP(mux)})
		c := s.Dial()
		for path, want := range map[string]string{
			"":                    "goroutine",
			"goroutine?debug=1":   "goroutine profile: total",
			"heap":                "\x1f\x8b",
			"cmdline":             os.Args[0],
			"profile?seconds=1":   "\x1f\x8b",
			"allocs?seconds=1":    "\x1f\x8b",
			"nothing-of-the-kind": "Unknown profile",
		} {
			a := c.Do("GET", "GET /debug/pprof/"+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			if !strings.Contains(a.Text, want) {
				t.Errorf("%s: %s, %q", path, a.Status, clip(a.Text))
			}
		}
		// A profile's client that leaves ends it.
		send(t, c, "GET /debug/pprof/profile?seconds=100 HTTP/1.1\r\nHost: a\r\n\r\n")
		stuck(s)
		c.Close()
		s.Idle()
	}, plain, overTLS)
}

// TestBridgeBehindTheRouter: a handler under a prefix sees the whole path, as http.StripPrefix
// expects.
func TestBridgeBehindTheRouter(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /item/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path, " ", r.PathValue("id"), " ", r.Pattern)
	})
	late := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	mux.Handle("/late", http.TimeoutHandler(http.HandlerFunc(late), time.Millisecond, "too late"))
	run(t, func(t *testing.T, m mode) {
		router := must.Get(handlers.NewRouter([]handlers.Site{{Routes: []handlers.Route{
			{Prefix: "/", Handler: hello},
			{Prefix: "/x", Handler: conn.HTTP(http.StripPrefix("/x", mux))},
		}}}))(t)
		s := start(t, m, conn.Config{Handler: router.Serve})
		c := s.Dial()
		for path, want := range map[string]string{
			"/": "Hello, world!", "/x/item/5": "/item/5 5 GET /item/{id}",
			"/x/none": "404 page not found\n", "/x/late": "too late",
		} {
			if a := c.Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); a.Text != want {
				t.Errorf("%s: %q", path, a.Text)
			}
		}
	})
}
