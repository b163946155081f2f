package conn_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

type (
	middleware = func(http.Handler) http.Handler
	form       = func(middleware) func(conn.Handler) conn.Handler
)

// statusWriter wraps a ResponseWriter as the middleware of logs and metrics does.
type statusWriter struct {
	http.ResponseWriter
	status, bytes, flushes int
}

func (r *statusWriter) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *statusWriter) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = 200
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += n
	return n, err
}

func (r *statusWriter) FlushError() error {
	r.flushes++
	return http.NewResponseController(r.ResponseWriter).Flush()
}

func (r *statusWriter) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// plainWriter wraps one without Unwrap.
type plainWriter struct{ w http.ResponseWriter }

func (p plainWriter) Header() http.Header         { return p.w.Header() }
func (p plainWriter) WriteHeader(status int)      { p.w.WriteHeader(status) }
func (p plainWriter) Write(b []byte) (int, error) { return p.w.Write(b) }

// upper changes the body.
type upper struct{ http.ResponseWriter }

func (u upper) Write(p []byte) (int, error) {
	return u.ResponseWriter.Write([]byte(strings.ToUpper(string(p))))
}

// upperBody replaces the request's body.
func upperBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := r.Body
		r.Body = struct {
			io.Reader
			io.Closer
		}{readerFunc(func(p []byte) (int, error) {
			n, err := body.Read(p)
			copy(p, strings.ToUpper(string(p[:n])))
			return n, err
		}), body}
		next.ServeHTTP(w, r)
	})
}

// wrap makes middleware that gives next another writer.
func wrap(to func(w http.ResponseWriter) http.ResponseWriter) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(to(w), r) })
	}
}

// record tells f what a statusWriter has seen.
func record(f func(seen string)) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := &statusWriter{ResponseWriter: w}
			defer func() { f(fmt.Sprintf("%d %d %d", rec.status, rec.bytes, rec.flushes)) }()
			next.ServeHTTP(rec, r)
		})
	}
}

// bothForms gives f both forms of middleware in each mode.
func bothForms(t *testing.T, f func(t *testing.T, m mode, form form),
	all ...mode) {
	run(t, func(t *testing.T, m mode) {
		t.Run("off the loop", func(t *testing.T) { f(t, m, conn.HTTPMiddleware) })
		t.Run("on the loop", func(t *testing.T) { f(t, m, conn.HTTPMiddlewareOnLoop) })
	}, all...)
}

// TestMiddlewareAnswers: whatever way a native handler answers in, its answer goes out as it does
// without middleware, and middleware that wraps the writer sees its status and its bytes.
func TestMiddlewareAnswers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(file, []byte(strings.Repeat("file ", 20000)), 0o600))
	handlers := map[string]struct {
		h    conn.Handler
		seen string // status, bytes, flushes
	}{
		"Write": {func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("X-Native", "1")
			fmt.Fprint(w, "hello")
			return 0
		}, "200 5 0"},
		"status": {func(_ *conn.Request, w *conn.Response) int { return w.Text(201, "made") }, "201 4 0"},
		"JSON":   {func(_ *conn.Request, w *conn.Response) int { return w.JSON(200, []int{1, 2}) }, "200 6 0"},
		"SetBody": {func(_ *conn.Request, w *conn.Response) int {
			w.SetBody([]byte("body"))
			return 200
		}, "200 4 0"},
		"long": {func(_ *conn.Request, w *conn.Response) int {
			for range 20 {
				_, _ = w.Write(make([]byte, 10000))
			}
			return 0
		}, "200 200000 0"},
		"file": {func(_ *conn.Request, w *conn.Response) int {
			f, err := os.Open(file)
			if err != nil {
				return w.Error(500, err)
			}
			w.SetBodyFile(f, 5, 50000)
			return 200
		}, "200 50000 0"},
		"reader": {func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyReader(strings.NewReader("from a reader"), -1)
			return 200
		}, "200 13 1"},
		"sized reader": {func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyReader(strings.NewReader("from a reader"), 13)
			return 200
		}, "200 13 0"},
		"Flush": {func(_ *conn.Request, w *conn.Response) int {
			w.SetStatus(202)
			fmt.Fprint(w, "first ")
			if err := w.Flush(); err != nil {
				return w.Error(500, err)
			}
			fmt.Fprint(w, "second")
			return 0
		}, "202 12 1"},
		"trailer": {func(_ *conn.Request, w *conn.Response) int {
			fmt.Fprint(w, "first ")
			_ = w.Flush()
			w.AddTrailer("X-Sum", "12")
			return 0
		}, "200 6 1"},
		"redirect":  {func(_ *conn.Request, w *conn.Response) int { return w.Redirect(303, "/x") }, "303 0 0"},
		"no page":   {func(_ *conn.Request, w *conn.Response) int { return 404 }, "404 0 0"},
		"error":     {func(_ *conn.Request, w *conn.Response) int { return w.Error(400, io.EOF) }, "400 4 0"},
		"nothing":   {func(_ *conn.Request, w *conn.Response) int { return 204 }, "204 0 0"},
		"fields":    {func(_ *conn.Request, w *conn.Response) int { w.Header().Set("X", "y"); return 0 }, "0 0 0"},
		"condition": {func(_ *conn.Request, w *conn.Response) int { return w.Precondition(`"a"`, time.Time{}) }, "304 0 0"},
		"content": {func(_ *conn.Request, w *conn.Response) int {
			return w.ServeContent("a.txt", time.Time{}, strings.NewReader("0123456789"), 10)
		}, "206 4 0"},
		"body": {func(req *conn.Request, w *conn.Response) int {
			body, err := io.ReadAll(req.Body())
			return w.Text(200, fmt.Sprint(string(body), err))
		}, "200 12 0"},
	}
	bothForms(t, func(t *testing.T, m mode, form form) {
		seen := make(chan string, 1)
		through := map[string]middleware{
			"passed": func(next http.Handler) http.Handler { return next },
			"record": record(func(s string) { seen <- s }),
			"plain":  wrap(func(w http.ResponseWriter) http.ResponseWriter { return plainWriter{w} }),
		}
		around := make(map[string]conn.Handler)
		for name, h := range handlers {
			around["/bare/"+name] = h.h
			for way, m := range through {
				around["/"+way+"/"+name] = form(m)(h.h)
			}
		}
		s := start(t, m, conn.Config{Handler: byPath(around)})
		for name, h := range handlers {
			for _, method := range []string{"POST", "GET", "HEAD"} {
				ask := func(way string) answer {
					fields := "Host: a\r\nRange: bytes=2-5\r\nIf-None-Match: \"a\"\r\n"
					body := ""
					if method == "POST" {
						body = "request"
						fields += fmt.Sprintf("Content-Length: %d\r\n", len(body))
					}
					path := strings.ReplaceAll("/"+way+"/"+name, " ", "%20")
					return s.Dial().Do(method, method+" "+path+" HTTP/1.1\r\n"+fields+"\r\n"+body)
				}
				want := ask("bare")
				for way := range through {
					if name == "Flush" && way == "plain" || name == "trailer" && way == "plain" {
						continue // TestMiddlewareRefuses
					}
					got := ask(way)
					if got.StatusCode != want.StatusCode || got.Text != want.Text {
						t.Errorf("%s %s, %s: %s, %q\nwant %s, %q", method, name, way, got.Status, clip(got.Text),
							want.Status, clip(want.Text))
					}
					for _, f := range []string{"Content-Type", "X-Native", "X", "Location", "Content-Range", "Etag",
						"Content-Length"} {
						if g, w := got.Header.Get(f), want.Header.Get(f); g != w &&
							!(f == "Content-Length" && (method == "HEAD" || way == "plain")) {
							t.Errorf("%s %s, %s: %s %q, want %q", method, name, way, f, g, w)
						}
					}
					if g, w := got.Trailer.Get("X-Sum"), want.Trailer.Get("X-Sum"); g != w {
						t.Errorf("%s %s, %s: trailer %q, want %q", method, name, way, g, w)
					}
					if way != "record" {
						continue
					}
					if got := <-seen; method == "POST" && name != "condition" && name != "content" && got != h.seen {
						t.Errorf("%s: the wrapper has seen %q, want %q", name, got, h.seen)
					}
				}
			}
		}
	}, direct, modes.HTTP2)
}

// TestMiddleware: what middleware does around a native handler.
func TestMiddleware(t *testing.T) {
	type key struct{}
	var name conn.Key[string]
	with := func(f func(w http.ResponseWriter, r *http.Request, next http.Handler)) middleware {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f(w, r, next) })
		}
	}
	hello := func(_ *conn.Request, w *conn.Response) int { return w.Text(0, "hello") }
	recovers := func(f func(w http.ResponseWriter, v any)) middleware {
		return with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			defer func() {
				if v := recover(); v != nil {
					f(w, v)
				}
			}()
			next.ServeHTTP(w, r)
		})
	}
	errBoom := errors.New("boom")
	rows := map[string]struct {
		m    middleware
		h    conn.Handler
		want string // status, fields of X-, body
	}{
		"answers itself": {with(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			w.Header().Set("X-From", "middleware")
			http.Error(w, "no", 403)
		}), hello, "403 middleware no\n"},
		"writes nothing": {with(func(http.ResponseWriter, *http.Request, http.Handler) {}), hello, "200  "},
		"sets fields": {with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			w.Header().Set("X-From", "middleware")
			next.ServeHTTP(w, r)
			w.Header().Set("X-From", "too late")
			w.WriteHeader(500)
		}), func(_ *conn.Request, w *conn.Response) int {
			return w.Text(0, "sees "+w.Header().Get("X-From"))
		}, "200 middleware sees middleware"},
		"fields are replaced": {with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			w.Header().Set("X-From", "middleware")
			next.ServeHTTP(&statusWriter{ResponseWriter: w}, r)
		}), func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("X-From", "handler")
			return w.Text(0, "")
		}, "200 handler "},
		"sets a value": {with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			ctx := context.WithValue(context.WithValue(r.Context(), key{}, "v"), &name, "ann")
			next.ServeHTTP(w, r.WithContext(ctx))
		}), func(req *conn.Request, w *conn.Response) int {
			n, ok := conn.Value(req, &name)
			off, _ := conn.Await(req, -1, func(ctx context.Context) (any, error) {
				return ctx.Value(key{}), nil
			})
			return w.Text(0, fmt.Sprint(req.Context().Value(key{}), n, ok, off))
		}, "200  vanntruev"},
		"sees a value": {with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			n, _ := conn.ValueOf(r.Context(), &name)
			w.Header().Set("X-From", n)
			next.ServeHTTP(w, r)
		}), hello, "200 outer hello"},
		"changes the body": {wrap(func(w http.ResponseWriter) http.ResponseWriter { return upper{w} }), hello,
			"200  HELLO"},
		"behind next": {with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(w, r)
			io.WriteString(w, " and more")
		}), hello, "200  hello and more"},
		"answers for it": {with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(w, r)
			w.WriteHeader(504)
		}), func(_ *conn.Request, w *conn.Response) int { w.Header().Set("X-From", "handler"); return 0 },
			"504 handler "},
		"by a wrapper": {with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			rec := &statusWriter{ResponseWriter: w}
			next.ServeHTTP(rec, r)
			rec.WriteHeader(504)
		}), func(_ *conn.Request, w *conn.Response) int { w.Header().Set("X-From", "handler"); return 0 },
			"504 handler "},
		"timeout": {with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			ctx, cancel := context.WithTimeout(r.Context(), time.Millisecond)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
			if ctx.Err() == context.DeadlineExceeded {
				w.WriteHeader(504)
			}
		}), func(req *conn.Request, w *conn.Response) int {
			if err := req.Sleep(time.Minute); !errors.Is(err, context.DeadlineExceeded) {
				return w.Error(500, err)
			}
			return 0
		}, "504  "},
		"canceled behind next": {with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			ctx, cancel := context.WithCancel(r.Context())
			next.ServeHTTP(w, r.WithContext(ctx))
			cancel()
		}), func(req *conn.Request, w *conn.Response) int {
			w.SetBodyReader(readerFunc(func(p []byte) (int, error) {
				if err := req.Sleep(time.Millisecond); err != nil {
					return 0, err
				}
				return copy(p, "hello"), io.EOF
			}), -1)
			return 200
		}, "200  hello"},
		"recovers": {recovers(func(w http.ResponseWriter, v any) {
			http.Error(w, fmt.Sprint(v == errBoom), 503)
		}), func(_ *conn.Request, w *conn.Response) int {
			w.WriteString("dropped")
			panic(errBoom)
		}, "503  true\n"},
		"panics": {with(func(http.ResponseWriter, *http.Request, http.Handler) { panic(errBoom) }), hello,
			"500  page"},
		"lets a panic pass": {with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(&statusWriter{ResponseWriter: w}, r)
		}), func(*conn.Request, *conn.Response) int { panic(errBoom) }, "500  page"},
		"reads the body": {with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			p := make([]byte, 3)
			_, _ = io.ReadFull(r.Body, p)
			w.Header().Set("X-From", string(p))
			next.ServeHTTP(w, r)
		}), func(req *conn.Request, w *conn.Response) int {
			rest, _ := io.ReadAll(req.Body())
			return w.Text(0, string(rest))
		}, "200 req uest"},
		"flushes before": {with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			io.WriteString(w, "<")
			w.(http.Flusher).Flush()
			next.ServeHTTP(w, r)
			io.WriteString(w, ">")
		}), hello, "200  <hello>"},
		"limits the body": {func(next http.Handler) http.Handler { return http.MaxBytesHandler(next, 2) },
			func(req *conn.Request, w *conn.Response) int {
				_, err := io.ReadAll(req.Body())
				return w.Error(400, err)
			}, "413  request body too large\n"},
		"replaces the body": {upperBody, func(req *conn.Request, w *conn.Response) int {
			text, err := io.ReadAll(req.Body())
			return w.Text(0, fmt.Sprint(string(text), err))
		}, "200  REQUEST<nil>"},
		"does so for a reader": {upperBody, func(req *conn.Request, w *conn.Response) int {
			w.SetBodyReader(req.Body(), -1)
			return 0
		}, "200  REQUEST"},
		"does so for an http.Handler": {upperBody,
			conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(w, r.Body)
			})), "200  REQUEST"},
		"an http.Handler": {record(func(string) {}),
			conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-From", "handler")
				_, _ = io.Copy(w, r.Body)
			})), "200 handler request"},
		"two": {func(next http.Handler) http.Handler {
			return record(func(string) {})(wrap(func(w http.ResponseWriter) http.ResponseWriter {
				return upper{w}
			})(next))
		}, hello, "200  HELLO"},
	}
	bothForms(t, func(t *testing.T, m mode, form form) {
		around := make(map[string]conn.Handler)
		for name, row := range rows {
			around["/"+name] = form(row.m)(row.h)
			around["/twice/"+name] = form(record(func(string) {}))(form(row.m)(row.h))
		}
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			conn.Set(req, &name, "outer")
			return byPath(around)(req, w)
		}})
		s.Panics.Expect()
		for path := range around {
			_, row, _ := strings.Cut(path, "twice")
			row = strings.TrimPrefix(row+strings.TrimPrefix(path, "/twice"), "/")
			want := rows[row[strings.LastIndexByte(row, '/')+1:]].want
			a := s.Dial().Do("POST", "POST "+strings.ReplaceAll(path, " ", "%20")+
				" HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\nrequest")
			text := a.Text
			if strings.Contains(text, "<html") {
				text = "page"
			}
			if want == "504  " || want == "504 handler " {
				text = "" // there may be a page
			}
			if got := fmt.Sprintf("%d %s %s", a.StatusCode, a.Header.Get("X-From"), text); got != want {
				t.Errorf("%s: got  %q\nwant %q", path, got, want)
			}
		}
	}, direct, modes.HTTP2)
}

// TestMiddlewareErrorPages: the page of an answer without a body is made outside of the middleware,
// and one that a layer within sets goes through it.
func TestMiddlewareErrorPages(t *testing.T) {
	bothForms(t, func(t *testing.T, m mode, form form) {
		page := func(text string) conn.ErrorPage {
			return func(_ *conn.Request, w *conn.Response, status int) bool {
				fmt.Fprint(w, text, status)
				return true
			}
		}
		seen := make(chan string, 1)
		h := form(record(func(s string) { seen <- s }))(func(req *conn.Request, w *conn.Response) int {
			if req.Path() == "/inner" {
				w.Layer().OnError(page("inner"))
			}
			return 404
		})
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			w.Layer().OnError(page("outer"))
			return h(req, w)
		}})
		for path, want := range map[string]string{"/": "404 outer404 404 0 0", "/inner": "404 inner404 404 8 0"} {
			a := s.Dial().Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			if got := fmt.Sprint(a.StatusCode, " ", a.Text, " ", <-seen); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	}, direct)
}

// TestMiddlewareHijack: a native handler takes over the connection through a middleware.
func TestMiddlewareHijack(t *testing.T) {
	bothForms(t, func(t *testing.T, m mode, form form) {
		echo := func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("X-Native", "1")
			c, r, err := w.Hijack()
			if err != nil {
				return w.Error(500, err)
			}
			fmt.Fprintf(c, "HTTP/1.1 101 S\r\nX-From: %s\r\n\r\n", w.Header().Get("X-From"))
			line, _ := r.ReadString('\n')
			fmt.Fprint(c, line)
			return 0
		}
		fields := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-From", "middleware")
				next.ServeHTTP(w, r)
			})
		}
		s := start(t, m, conn.Config{Handler: byPath(map[string]conn.Handler{
			"/passed": form(fields)(echo),
			"/wrapped": form(func(next http.Handler) http.Handler {
				return fields(record(func(string) {})(next))
			})(echo),
		})})
		for _, path := range []string{"/passed", "/wrapped"} {
			c := s.Dial()
			c.Send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\nline\n")
			got := string(must.Get(io.ReadAll(c))(t))
			if want := "HTTP/1.1 101 S\r\nX-From: middleware\r\n\r\nline\n"; got != want {
				t.Errorf("%s: %q", path, got)
			}
			c.Close()
		}
		s.Idle()
	}, direct)
}

// TestMiddlewareRefuses: what cannot work is an error that says so, or a panic that is logged, and
// the client gets a 500.
func TestMiddlewareRefuses(t *testing.T) {
	with := func(f func(w http.ResponseWriter, r *http.Request, next http.Handler)) middleware {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f(w, r, next) })
		}
	}
	plain := wrap(func(w http.ResponseWriter) http.ResponseWriter { return plainWriter{w} })
	tells := func(err error, w *conn.Response) int { return w.Text(500, fmt.Sprint(err)) }
	hello := func(_ *conn.Request, w *conn.Response) int { return w.Text(0, "hello") }
	rows := map[string]struct {
		m      middleware
		h      conn.Handler
		want   string // in the answer, or in the log
		logged bool
	}{
		"Flush": {plain, func(_ *conn.Request, w *conn.Response) int { return tells(w.Flush(), w) },
			"conn: Flush through the conn_test.plainWriter of a middleware", false},
		"Hijack": {plain, func(_ *conn.Request, w *conn.Response) int {
			_, _, err := w.Hijack()
			return tells(err, w)
		}, "conn: Hijack through the conn_test.plainWriter of a middleware", false},
		"hijack off the loop": {wrap(func(w http.ResponseWriter) http.ResponseWriter {
			return &statusWriter{ResponseWriter: w}
		}), conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _, err := w.(http.Hijacker).Hijack()
			http.Error(w, err.Error(), 500)
		})), "conn: an http.Handler off the loop cannot take over a connection", false},
		"URL": {func(next http.Handler) http.Handler { return http.StripPrefix("/", next) }, hello, "method or URL", true},
		"method": {with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			r.Method = "PUT"
			next.ServeHTTP(w, r)
		}), hello, "method or URL", true},
		"context": {with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(w, r.WithContext(context.Background()))
		}), hello, "a context that is not the request's", true},
		"twice": {with(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(w, r)
			next.ServeHTTP(w, r)
		}), hello, "next was called twice", true},
	}
	bothForms(t, func(t *testing.T, m mode, form form) {
		around := make(map[string]conn.Handler)
		for name, row := range rows {
			around["/"+name] = form(row.m)(row.h)
		}
		s := start(t, m, conn.Config{Handler: byPath(around)})
		s.Panics.Expect()
		for name, row := range rows {
			a := s.Dial().Do("POST", "POST /"+strings.ReplaceAll(name, " ", "%20")+
				" HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
			text := a.Text
			if row.logged {
				text = s.Log.String()
			}
			if a.StatusCode != 500 || !strings.Contains(text, row.want) {
				t.Errorf("%s: %s, %q\nwant %q", name, a.Status, text, row.want)
			}
		}
	}, direct)
}

// TestMiddlewareOtherGoroutine: middleware that calls next on a goroutine of its own, or reads the
// body there, is told, and the process goes on.
func TestMiddlewareOtherGoroutine(t *testing.T) {
	read := make(chan error, 2)
	own := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			done := make(chan bool)
			go func() {
				defer close(done)
				next.ServeHTTP(w, r)
				_, err := r.Body.Read(make([]byte, 1))
				read <- err
			}()
			<-done
		})
	}
	buffering := func(next http.Handler) http.Handler {
		return own(http.TimeoutHandler(next, time.Minute, ""))
	}
	for _, m := range []func(http.Handler) http.Handler{own, buffering} {
		h := conn.HTTPMiddleware(m)(func(*conn.Request, *conn.Response) int {
			t.Error("called")
			return 200
		})
		s := start(t, direct, conn.Config{Handler: h})
		a := s.Dial().Do("POST", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
		if a.StatusCode != 500 {
			t.Error(a.Status)
		}
		for _, told := range []string{s.Log.String(), fmt.Sprint(<-read)} {
			if !strings.Contains(told, "http.TimeoutHandler") {
				t.Error(told)
			}
		}
	}
}

// TestMiddlewareEnds: a client that leaves, a stop, and middleware that ends its goroutine leave
// nothing behind.
func TestMiddlewareEnds(t *testing.T) {
	bothForms(t, func(t *testing.T, m mode, form form) {
		entered, waiting, left := make(chan bool), make(chan bool), make(chan error, 1)
		h := form(record(func(string) {}))(func(req *conn.Request, w *conn.Response) int {
			close(entered)
			left <- req.Sleep(time.Minute)
			return 0
		})
		exits := form(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { runtime.Goexit() })
		})(h)
		waits := form(record(func(string) {}))(func(req *conn.Request, w *conn.Response) int {
			close(waiting)
			req.KeepWaiting(true)
			_ = req.Sleep(time.Hour)
			return 0
		})
		s := start(t, m, conn.Config{Handler: byPath(map[string]conn.Handler{
			"/leaves": h, "/exits": exits, "/waits": waits,
		})})
		c := s.Dial()
		c.Send("GET /leaves HTTP/1.1\r\nHost: a\r\n\r\n")
		<-entered
		c.Close()
		if err := <-left; !errors.Is(err, loop.ErrClientGone) {
			t.Error(err)
		}
		c = s.Dial()
		c.Send("GET /exits HTTP/1.1\r\nHost: a\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); err != io.EOF {
			t.Errorf("%q, %v", line, err)
		}
		c = s.Dial()
		c.Send("GET /waits HTTP/1.1\r\nHost: a\r\n\r\n")
		<-waiting
		s.Stop(time.Millisecond)
	}, direct)
}

// TestMiddlewareReplacesBody: whatever way a handler reads in, it gets all of a body that the
// middleware has put in the place of a shorter one, of which it has read some.
func TestMiddlewareReplacesBody(t *testing.T) {
	longer := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			first, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), 500)
				return
			}
			r.Body = io.NopCloser(strings.NewReader(strings.Replace(string(first), "x",
				strings.Repeat("x", 50000), 1)))
			next.ServeHTTP(w, r)
		})
	}
	buffered := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b := bufio.NewReader(r.Body)
			_, _ = b.Peek(1)
			r.Body = io.NopCloser(b)
			next.ServeHTTP(w, r)
		})
	}
	failing := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, 3), errReader{}))
			next.ServeHTTP(w, r)
		})
	}
	text := func(w *conn.Response, n int, err error) int {
		return w.Text(200, fmt.Sprint(n, " ", err))
	}
	std := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := io.ReadAll(r.Body)
		fmt.Fprint(w, len(p), " ", err)
	})
	spool := func(most int64) conn.Handler {
		return func(req *conn.Request, w *conn.Response) int {
			body, n, err := req.Layer().Spool(most)
			if err == nil {
				var all []byte
				if all, err = io.ReadAll(body); int64(len(all)) != n {
					return w.Text(500, "of another length")
				}
			}
			return text(w, int(n), err)
		}
	}
	const urlencoded, json = "application/x-www-form-urlencoded", "application/json"
	parts := "multipart/form-data; boundary=b"
	part := "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n%s\r\n--b--\r\n"
	ways := map[string]struct {
		kind, body string
		h          conn.Handler
	}{
		"Read": {"a", "%s", func(req *conn.Request, w *conn.Response) int {
			p, err := io.ReadAll(req.Body())
			return text(w, len(p), err)
		}},
		"Form": {urlencoded, "a=%s", func(req *conn.Request, w *conn.Response) int {
			f, err := req.Form()
			return text(w, len(f.Get("a")), err)
		}},
		"JSON": {json, `{"a":"%s"}`, func(req *conn.Request, w *conn.Response) int {
			var v struct{ A string }
			err := req.BindJSON(&v)
			return text(w, len(v.A), err)
		}},
		"multipart": {parts, part, func(req *conn.Request, w *conn.Response) int {
			f, err := req.MultipartForm(1 << 20)
			if err != nil {
				return text(w, 0, err)
			}
			return text(w, len(f.Value["a"][0]), nil)
		}},
		"spool":      {"a", "%s", spool(1 << 20)},
		"file":       {"a", "%s", spool(2)},
		"HTTP":       {"a", "%s", conn.HTTP(std)},
		"HTTPOnLoop": {"a", "%s", conn.HTTPOnLoop(std)},
	}
	bothForms(t, func(t *testing.T, m mode, wrap form) {
		around := make(map[string]conn.Handler)
		for name, way := range ways {
			around["/longer/"+name] = wrap(longer)(way.h)
			around["/buffered/"+name] = wrap(buffered)(way.h)
			around["/failing/"+name] = wrap(failing)(way.h)
		}
		s := start(t, m, conn.Config{Handler: byPath(around),
			Limits: conn.Limits{MaxBodySize: 1 << 20}})
		for name, way := range ways {
			ask := func(kind, value string) string {
				body := fmt.Sprintf(way.body, value)
				a := s.Dial().Do("POST", fmt.Sprintf("POST /%s/%s HTTP/1.1\r\nHost: a\r\nContent-Type: %s\r\n"+
					"Content-Length: %d\r\n\r\n%s", kind, name, way.kind, len(body), body))
				return fmt.Sprint(a.StatusCode, " ", a.Text)
			}
			if got := ask("longer", "x"); got != "200 50000 <nil>" {
				t.Errorf("%s, longer: %s", name, clip(got))
			}
			for _, n := range []int{10, 10000, 100000} {
				got := ask("buffered", strings.Repeat("y", n))
				if want := fmt.Sprintf("200 %d <nil>", n); got != want {
					t.Errorf("%s, buffered: %s, want %s", name, clip(got), want)
				}
			}
			if got := ask("failing", "value"); !strings.Contains(got, "broken body") {
				t.Errorf("%s, failing: %s", name, clip(got))
			}
		}
	}, direct, modes.HTTP2)
}

// errReader fails.
type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("broken body") }

// TestMiddlewareInSubrequest: who asks a handler behind middleware by a Subrequest gets the
// handler's answer, or the middleware's.
func TestMiddlewareInSubrequest(t *testing.T) {
	bothForms(t, func(t *testing.T, m mode, form form) {
		refuse := func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("X-Why", "because")
			return w.Text(401, "no")
		}
		paged := func(_ *conn.Request, w *conn.Response) int {
			w.Layer().OnError(func(_ *conn.Request, w *conn.Response, _ int) bool {
				w.Header().Set("X-Why", "because")
				_, _ = w.WriteString("no")
				return true
			})
			return 401
		}
		refuses := func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Why", "because")
				w.WriteHeader(401)
				_, _ = io.WriteString(w, "no")
			})
		}
		asked := map[string]conn.Handler{
			"direct":     form(func(next http.Handler) http.Handler { return next })(refuse),
			"through":    form(record(func(string) {}))(refuse),
			"page":       form(record(func(string) {}))(paged),
			"middleware": form(refuses)(refuse),
		}
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			status, header, body, err := req.Layer().SubrequestInMemory("/", "", 100, asked[req.Path()[1:]])
			dropped, _, err2 := req.Subrequest("/", asked[req.Path()[1:]])
			return w.Text(200, fmt.Sprint(status, " ", dropped, " ", header.Get("X-Why"), " ", string(body),
				err, err2))
		}})
		for name := range asked {
			a := s.Dial().Do("GET", "GET /"+name+" HTTP/1.1\r\nHost: a\r\n\r\n")
			if want := "401 401 because no<nil> <nil>"; a.Text != want {
				t.Errorf("%s: %q, want %q", name, a.Text, want)
			}
		}
	}, direct, modes.HTTP2)
}

// TestMiddlewareWithin: a budget of time ends the context of the middleware and the waits of the
// handler within it, and not the wait for a goroutine that still answers.
func TestMiddlewareWithin(t *testing.T) {
	bothForms(t, func(t *testing.T, m mode, form form) {
		late := form(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				http.Error(w, r.Context().Err().Error(), 504)
			})
		})(hello)
		waits := form(record(func(string) {}))(func(req *conn.Request, w *conn.Response) int {
			return w.Text(503, fmt.Sprint(req.Sleep(time.Minute)))
		})
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) (status int) {
			_ = req.Within(5*time.Millisecond, func() error {
				status = byPath(map[string]conn.Handler{"/late": late, "/waits": waits})(req, w)
				return nil
			})
			return status
		}})
		for path, want := range map[string]string{"/late": "504 context deadline exceeded\n",
			"/waits": "503 " + loop.ErrBudget.Error()} {
			a := s.Dial().Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			if got := fmt.Sprint(a.StatusCode, " ", a.Text); got != want {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		}
	}, direct, modes.HTTP2)
}
