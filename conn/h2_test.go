package conn_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// client2 is net/http's client of HTTP/2, over TLS or with prior knowledge.
func client2(t *testing.T, s *site) *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	if s.Mode.TLS {
		tr.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
		tr.Protocols.SetHTTP2(true)
	} else {
		tr.Protocols.SetUnencryptedHTTP2(true)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

func url2(s *site, path string) string {
	if s.Mode.TLS {
		return "https://" + s.Addr + path
	}
	return "http://" + s.Addr + path
}

func run2(t *testing.T, f func(t *testing.T, m mode)) { run(t, f, modes.HTTP2, modes.HTTP2TLS) }

// do sends a request and reads the answer.
func do2(t *testing.T, c *http.Client, req *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := c.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s %s: body: %v", req.Method, req.URL, err)
	}
	if resp.ProtoMajor != 2 {
		t.Errorf("%s %s: %s", req.Method, req.URL, resp.Proto)
	}
	return resp, string(body)
}

// TestHTTP2Answers: what handlers answer by HTTP/1.1, they answer by HTTP/2.
func TestHTTP2Answers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 20<<10) // 320 KiB
	file := t.TempDir() + "/f"
	must.Do(t, os.WriteFile(file, []byte(long), 0o600))
	open := func() *os.File {
		f, err := os.Open(file)
		if err != nil {
			panic(err)
		}
		return f
	}
	handlers := map[string]conn.Handler{
		"/text": func(_ *conn.Request, w *conn.Response) int { return w.Text(201, "text") },
		"/none": func(_ *conn.Request, w *conn.Response) int { return 204 },
		"/same": func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("ETag", `"a"`)
			return 304
		},
		"/error": func(_ *conn.Request, w *conn.Response) int { return 418 },
		"/long":  func(_ *conn.Request, w *conn.Response) int { w.WriteString(long); return 200 },
		"/given": func(_ *conn.Request, w *conn.Response) int { w.SetBody([]byte(long)); return 200 },
		"/file": func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyFile(open(), 5, int64(len(long))-5)
			return 200
		},
		"/reader": func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyReader(strings.NewReader(long), -1)
			return 200
		},
		"/pieces": func(_ *conn.Request, w *conn.Response) int {
			for range 3 {
				w.WriteString("piece ")
				w.Flush()
			}
			return 200
		},
		"/trailer": func(_ *conn.Request, w *conn.Response) int {
			w.Flush()
			w.WriteString("body")
			w.AddTrailer("Grpc-Status", "0")
			return 200
		},
		"/fields": func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("Connection", "X-Hop, close")
			w.Header().Set("Keep-Alive", "timeout=5")
			w.Header().Set("Transfer-Encoding", "identity")
			w.Header().Add("Set-Cookie", "a=b")
			w.Header().Add("Set-Cookie", "c=d")
			return w.Text(200, "fields")
		},
		"/large": func(_ *conn.Request, w *conn.Response) int { // more than a frame
			w.Header().Set("X-Large", strings.Repeat("v", 40<<10))
			return w.Text(200, "large")
		},
		"/panic": func(*conn.Request, *conn.Response) int { panic(http.ErrAbortHandler) },
		"/late": func(_ *conn.Request, w *conn.Response) int {
			w.WriteString("begun")
			w.Flush()
			panic(http.ErrAbortHandler)
		},
		"/short": func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("Content-Length", "10")
			w.WriteString("five ")
			w.Flush()
			return 200
		},
		"/early": func(_ *conn.Request, w *conn.Response) int {
			h := new(conn.Header)
			h.Set("Link", "</a.css>; rel=preload")
			w.Inform(103, h)
			return w.Text(200, "behind")
		},
		"/request": func(req *conn.Request, w *conn.Response) int {
			cookie, _ := req.Cookie("b")
			return w.Text(200, fmt.Sprintf("%s %s %s %s %s %s %v", req.Method(), req.Target(), req.Host(),
				req.Proto(), cookie, req.Header().Get("X-Two"), req.ContentLength()))
		},
	}
	run2(t, func(t *testing.T, m mode) {
		s := start(t, m,
			conn.Config{Handler: byPath(handlers), Limits: conn.Limits{MaxHeaderSize: 64 << 10}})
		c := client2(t, s)
		for _, test := range []struct {
			method, path string
			status       int
			length       int64
			body         string
		}{
			{"GET", "/text", 201, 4, "text"}, {"HEAD", "/text", 201, 4, ""},
			{"GET", "/none", 204, 0, ""}, {"GET", "/same", 304, 0, ""},
			{"GET", "/long", 200, -1, long}, {"GET", "/given", 200, int64(len(long)), long},
			{"HEAD", "/given", 200, int64(len(long)), ""},
			{"GET", "/file", 200, int64(len(long)) - 5, long[5:]}, {"GET", "/reader", 200, -1, long},
			{"GET", "/pieces", 200, -1, "piece piece piece "}, {"GET", "/trailer", 200, -1, "body"},
			{"GET", "/fields", 200, 6, "fields"}, {"GET", "/large", 200, 5, "large"},
			{"GET", "/early", 200, 6, "behind"},
		} {
			req, _ := http.NewRequest(test.method, url2(s, test.path), nil)
			early := ""
			req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					early = fmt.Sprint(code, h.Get("Link"))
					return nil
				}}))
			resp, body := do2(t, c, req)
			if resp.StatusCode != test.status || body != test.body ||
				resp.ContentLength != test.length && test.status < 300 && test.status != 204 {
				t.Errorf("%s %s: %s, %d bytes, %.30q", test.method, test.path, resp.Status, resp.ContentLength,
					body)
			}
			if resp.Header.Get("Date") == "" || resp.Header.Get("Connection") != "" ||
				resp.Header.Get("Keep-Alive") != "" {
				t.Errorf("%s: %v", test.path, resp.Header)
			}
			if test.path == "/trailer" && resp.Trailer.Get("Grpc-Status") != "0" {
				t.Errorf("trailer %v", resp.Trailer)
			}
			if test.path == "/fields" && len(resp.Header.Values("Set-Cookie")) != 2 {
				t.Errorf("%v", resp.Header)
			}
			if test.path == "/early" && early != "103</a.css>; rel=preload" {
				t.Errorf("interim response %q", early)
			}
		}
		if resp, body := do2(t, c, get2(s, "/error")); resp.StatusCode != 418 ||
			!strings.Contains(body, "418") {
			t.Errorf("error page: %s %q", resp.Status, body)
		}
		for _, path := range []string{"/panic", "/late", "/short"} {
			resp, err := c.Do(get2(s, path))
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if err == nil {
				t.Errorf("%s: no error", path)
			}
		}
		req := get2(s, "/request?q")
		req.Header.Add("Cookie", "a=1")
		req.Header.Add("Cookie", "b=2")
		req.Header.Set("X-Two", "two")
		if _, body := do2(t, c, req); body != "GET /request?q "+s.Addr+" HTTP/2.0 2 two 0" {
			t.Error(body)
		}
	})
}

func get2(s *site, path string) *http.Request {
	req, err := http.NewRequest("GET", url2(s, path), nil)
	if err != nil {
		panic(err)
	}
	return req
}

// TestHTTP2Bodies: bodies of any length, with and without Content-Length, with a trailer, larger
// than all windows, and answered before they have come to their end.
func TestHTTP2Bodies(t *testing.T) {
	t.Parallel()
	handlers := map[string]conn.Handler{
		"/count": func(req *conn.Request, w *conn.Response) int {
			req.Body().KeepTrailer()
			n, err := io.Copy(io.Discard, req.Body())
			trailer := ""
			req.Body().Trailer(func(name, value string) { trailer += name + "=" + value })
			return w.Text(200, fmt.Sprint(n, " ", err, " ", req.ContentLength(), " ", trailer))
		},
		"/echo": func(req *conn.Request, w *conn.Response) int {
			buf := make([]byte, 9000)
			for {
				n, err := req.Body().Read(buf)
				if _, err := w.Write(buf[:n]); err != nil {
					return 0
				}
				if w.Flush() != nil || err != nil {
					return 200
				}
			}
		},
		"/spool": func(req *conn.Request, w *conn.Response) int {
			_, n, err := req.Layer().Spool(1 << 10)
			return w.Text(200, fmt.Sprint(n, err))
		},
		"/ignore": func(req *conn.Request, w *conn.Response) int { return w.Text(200, "ignored") },
	}
	run2(t, func(t *testing.T, m mode) {
		s := start(t, m,
			conn.Config{Handler: byPath(handlers), Limits: conn.Limits{MaxBodySize: 8 << 20}})
		c := client2(t, s)
		for _, n := range []int{0, 1, 70_000, 3 << 20} {
			body := chacha(n)
			for _, length := range []int64{int64(n), -1} {
				req, _ := http.NewRequest("POST", url2(s, "/count"), io.NopCloser(bytes.NewReader(body)))
				req.ContentLength = length
				if n == 0 && length == 0 {
					req.Body = http.NoBody
				}
				want := fmt.Sprint(n, " <nil> ", length, " ")
				if length < 0 && n > 0 {
					req.Trailer = http.Header{"X-Sum": {"5"}}
					want += "x-sum=5"
				}
				if _, got := do2(t, c, req); got != want {
					t.Errorf("%d, length %d: %q, want %q", n, length, got, want)
				}
			}
			req, _ := http.NewRequest("POST", url2(s, "/echo"), io.NopCloser(bytes.NewReader(body)))
			if _, got := do2(t, c, req); got != string(body) {
				t.Errorf("%d bytes come back as %d", n, len(got))
			}
			req, _ = http.NewRequest("POST", url2(s, "/spool"), bytes.NewReader(body))
			if _, got := do2(t, c, req); got != fmt.Sprint(n, nil) {
				t.Errorf("spooled %q", got)
			}
		}
		for range 20 { // more than all windows, and none of it is read
			req, _ := http.NewRequest("POST", url2(s, "/ignore"),
				io.NopCloser(bytes.NewReader(chacha(200<<10))))
			if _, got := do2(t, c, req); got != "ignored" {
				t.Error(got)
			}
		}
		req, _ := http.NewRequest("POST", url2(s, "/count"), bytes.NewReader(make([]byte, 9<<20)))
		if resp, _ := do2(t, c, req); resp.StatusCode != 413 {
			t.Errorf("too large: %s", resp.Status)
		}
	})
}

// TestHTTP2Waits: a handler that waits leaves the connection's other streams alone; when its client
// resets the stream, its waits end, and its context.
func TestHTTP2Waits(t *testing.T) {
	t.Parallel()
	run2(t, func(t *testing.T, m mode) {
		begun, ended, release := make(chan bool, 200), make(chan error, 200), make(chan struct{})
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			if req.Path() == "/wait" {
				ctx := req.Context()
				begun <- true
				_, err := req.AwaitAny(-1, loop.FromChan(release))
				if err != nil && context.Cause(ctx) != loop.ErrClientGone {
					err = fmt.Errorf("cause %v", context.Cause(ctx))
				}
				ended <- err
			}
			return w.Text(200, "done")
		}})
		c := client2(t, s)
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for range 99 {
			all.Go(func() {
				resp, err := c.Do(get2(s, "/wait").WithContext(ctx))
				if err == nil {
					resp.Body.Close()
				}
			})
		}
		for range 99 {
			<-begun
		}
		if _, body := do2(t, c, get2(s, "/")); body != "done" {
			t.Error(body)
		}
		cancel()
		for range 99 {
			if err := <-ended; !errors.Is(err, loop.ErrClientGone) {
				t.Error(err)
			}
		}
		all.Wait()
		if _, body := do2(t, c, get2(s, "/")); body != "done" {
			t.Error(body)
		}
		close(release)
	})
}

// TestHTTP2Bridge: handlers of net/http, on the loop and off it.
func TestHTTP2Bridge(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Proto", fmt.Sprint(r.Proto, r.ProtoMajor, r.TransferEncoding))
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("X-Sum", "7")
	})
	mux.HandleFunc("/flush", func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			fmt.Fprint(w, "piece ")
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, r *http.Request) {
		_, is := w.(http.Hijacker)
		_, _, err := http.NewResponseController(w).Hijack()
		if is || !errors.Is(err, http.ErrNotSupported) || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a Hijacker: %v; %v", is, err)
		}
		http.Error(w, "no", 501)
	})
	run2(t, func(t *testing.T, m mode) {
		for name, h := range map[string]conn.Handler{"off": conn.HTTP(mux), "on": conn.HTTPOnLoop(mux)} {
			s := start(t, m, conn.Config{Handler: h})
			c := client2(t, s)
			for _, n := range []int{0, 10, 300 << 10} {
				body := chacha(n)
				req, _ := http.NewRequest("POST", url2(s, "/echo"), io.NopCloser(bytes.NewReader(body)))
				resp, got := do2(t, c, req)
				if got != string(body) || resp.Header.Get("X-Proto") != "HTTP/2.02 []" {
					t.Errorf("%s the loop: %d bytes come back as %d, %v", name, n, len(got), resp.Header)
				}
				if n > 0 && resp.Trailer.Get("X-Sum") != "7" {
					t.Errorf("%s the loop: trailer %v", name, resp.Trailer)
				}
			}
			if _, got := do2(t, c, get2(s, "/flush")); got != "piece piece piece " {
				t.Errorf("%s the loop: %q", name, got)
			}
			if resp, _ := do2(t, c, get2(s, "/hijack")); resp.StatusCode != 501 {
				t.Errorf("%s the loop: hijack: %s", name, resp.Status)
			}
		}
	})
}

// TestHTTP2Stop: a stop lets streams that are under way come to their end, and refuses others.
func TestHTTP2Stop(t *testing.T) {
	t.Parallel()
	run2(t, func(t *testing.T, m mode) {
		begun := make(chan bool)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			begun <- true
			_, _ = req.AwaitAny(-1, req.Loop().Stopped())
			return w.Text(200, "complete")
		}})
		c := client2(t, s)
		got := make(chan string)
		go func() {
			resp, err := c.Do(get2(s, "/"))
			if err != nil {
				got <- err.Error()
				return
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			got <- string(body)
		}()
		<-begun
		s.Stop(5 * time.Second)
		if body := <-got; body != "complete" {
			t.Error(body)
		}
	})
}

// TestHTTP2MaxRate: a bandwidth is kept, in the usual way and in a Duplex; and the answer is whole.
func TestHTTP2MaxRate(t *testing.T) {
	t.Parallel()
	const rate, size = 400 << 10, 100 << 10
	body := chacha(size)
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		w.SetMaxRate(rate)
		if req.Path() != "/duplex" {
			w.SetBody(body)
			return 200
		}
		d := req.Layer().Duplex()
		_, _ = w.Write(body)
		for d.Held() > 0 {
			if err := d.Await(-1, false); err != nil {
				return 500
			}
			if _, err := d.SendHeld(); err != nil {
				return 500
			}
		}
		return 200
	}})
	c := client2(t, s)
	for _, path := range []string{"/", "/duplex"} {
		began := time.Now()
		_, got := do2(t, c, get2(s, path))
		// The first eighth of a second's bytes goes out at once.
		if least := time.Second * (size - rate/8) / rate; got != string(body) ||
			time.Since(began) < least/2 {
			t.Errorf("%s: %d bytes in %v, want %v", path, len(got), time.Since(began), least)
		}
	}
}
