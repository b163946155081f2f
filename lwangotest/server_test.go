package lwangotest_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/lwangotest"
)

// TestExample: the example has no output that could be compared. testing.RunTests within it would
// write of its own accord under -v.
func TestExample(t *testing.T) {
	Example()
	testGreet(t)
	ExampleDo()
	ExampleStartServer()
	ExampleServer_WebSocket()
	ExampleServer_Events()
	for _, f := range examples {
		f(t)
	}
}

func TestDo(t *testing.T) {
	s := lwangotest.Start(t, func(req *lwango.Request, resp *lwango.Response) int {
		body, err := io.ReadAll(req.Body())
		if err != nil {
			return 400
		}
		fmt.Fprintf(resp, "%s %s?%s %s %q %q", req.Method(), req.Path(), req.RawQuery(), req.Host(),
			req.Header().Get("X-A"), body)
		return 201
	})
	for _, test := range []struct {
		a    lwangotest.Answer
		want string
	}{
		{s.Get("/a"), "GET /a? " + s.Addr + ` "" ""`},
		{s.Get("/a?b=c", "X-A: d", "Host: example.org"), `GET /a?b=c example.org "d" ""`},
		{s.Do("PUT", "/", "body", "X-A:e"), "PUT /? " + s.Addr + ` "e" "body"`},
	} {
		if test.a.StatusCode != 201 || test.a.Text != test.want {
			t.Errorf("%s: %s\nwant %s", test.a.Status, test.a.Text, test.want)
		}
	}
}

// TestLarge: request and answer are both longer than the sockets hold, and the handler answers
// while it reads.
func TestLarge(t *testing.T) {
	s := lwangotest.Start(t, func(req *lwango.Request, resp *lwango.Response) int {
		if _, err := io.Copy(resp, req.Body()); err != nil {
			return 400
		}
		return 200
	})
	body := strings.Repeat("0123456789abcdef", 1<<20)
	if a := s.Do("POST", "/", body); a.Text != body {
		t.Errorf("%s: %d bytes, want %d", a.Status, len(a.Text), len(body))
	}
}

func TestRedirectIsShown(t *testing.T) {
	s := lwangotest.Start(t, func(_ *lwango.Request, resp *lwango.Response) int {
		resp.Header().Set("Location", "/elsewhere")
		return 303
	})
	if a := s.Get("/"); a.StatusCode != 303 || a.Header.Get("Location") != "/elsewhere" {
		t.Errorf("%s, %v", a.Status, a.Header)
	}
}

func TestLog(t *testing.T) {
	s := lwangotest.Start(t, func(*lwango.Request, *lwango.Response) int { panic("oh") })
	if a := s.Get("/"); a.StatusCode != 500 || !strings.Contains(s.Log(), "oh") {
		t.Errorf("%s; the log has %q", a.Status, s.Log())
	}
	s.ExpectPanic()
	var own strings.Builder
	s = lwangotest.StartConfig(t, conn.Config{
		Handler: func(*lwango.Request, *lwango.Response) int { panic("oh") },
		Logger:  slog.New(slog.NewTextHandler(&own, nil)),
	})
	s.Get("/")
	s.ExpectPanic()
	s.Stop()
	if s.Log() != "" || !strings.Contains(own.String(), "oh") {
		t.Errorf("Log has %q, the logger %q", s.Log(), own.String())
	}
}

// TestSkip: waits of all kinds end when their time is skipped, and none does before.
func TestSkip(t *testing.T) {
	const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	t.Run("sleep", func(t *testing.T) {
		s := lwangotest.Start(t, func(req *lwango.Request, resp *lwango.Response) int {
			err := req.Sleep(time.Hour)
			fmt.Fprint(resp, err)
			return 200
		})
		c := s.Dial()
		c.Send(get)
		s.Advance(time.Hour - time.Minute)
		c.Send(get)
		s.Advance(time.Minute)
		if a := c.Answer("GET"); a.Text != "<nil>" {
			t.Error(a.Text)
		}
		s.Advance(time.Hour) // the second request began to sleep after the first
		if a := c.Answer("GET"); a.Text != "<nil>" {
			t.Error(a.Text)
		}
	})
	t.Run("limit of a wait", func(t *testing.T) {
		never := make(chan struct{})
		s := lwangotest.Start(t, func(req *lwango.Request, resp *lwango.Response) int {
			err := req.Await(time.Hour, func(context.Context) error { <-never; return nil })
			fmt.Fprint(resp, err)
			return 200
		})
		defer close(never)
		c := s.Dial()
		c.Send(get)
		s.Advance(time.Hour)
		if a := c.Answer("GET"); a.Text != loop.ErrDeadlineExceeded.Error() {
			t.Error(a.Text)
		}
	})
	t.Run("header", func(t *testing.T) {
		s := lwangotest.StartConfig(t, conn.Config{Limits: conn.Limits{HeaderTimeout: time.Hour}})
		c := s.Dial()
		c.Send("GET / HT")
		s.Advance(time.Hour - time.Minute)
		c.Send("TP/1.1\r\n")
		s.Advance(time.Minute)
		if got := c.Answer("GET"); got.StatusCode != 408 {
			t.Error(got.Status)
		}
		c.ReadAll()
	})
	t.Run("body", func(t *testing.T) {
		s := lwangotest.StartConfig(t, conn.Config{
			Limits: conn.Limits{BodyTimeout: time.Hour, MinRate: -1},
			Handler: func(req *lwango.Request, resp *lwango.Response) int {
				if _, err := io.ReadAll(req.Body()); err != nil {
					return 500 // the client gets the server's answer
				}
				return 200
			},
		})
		c := s.Dial()
		c.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n12")
		s.Advance(time.Hour - time.Minute)
		c.Send("34")
		s.Advance(time.Hour - time.Minute)
		c.Send("56")
		s.Advance(time.Hour)
		if a := c.Answer("POST"); a.StatusCode != 408 {
			t.Error(a.Status)
		}
	})
	t.Run("least rate", func(t *testing.T) {
		s := lwangotest.StartConfig(t, conn.Config{
			Limits: conn.Limits{BodyTimeout: 24 * time.Hour, MinRate: 1},
			Handler: func(req *lwango.Request, resp *lwango.Response) int {
				if _, err := io.ReadAll(req.Body()); err != nil {
					return 500
				}
				return 200
			},
		})
		c := s.Dial()
		c.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n12")
		s.Advance(time.Hour)
		c.Send("34")
		if a := c.Answer("POST"); a.StatusCode != 408 {
			t.Error(a.Status)
		}
	})
	t.Run("greatest rate", func(t *testing.T) {
		const size = 4 << 10 // which takes more than an hour
		var sent atomic.Bool
		s := lwangotest.Start(t, func(req *lwango.Request, resp *lwango.Response) int {
			resp.SetMaxRate(1)
			resp.Header().Set("Content-Length", strconv.Itoa(size))
			fmt.Fprint(resp, strings.Repeat("x", size))
			if err := resp.Flush(); err != nil {
				t.Error(err)
			}
			sent.Store(true)
			return 200
		})
		c := s.Dial()
		c.Send(get)
		for !sent.Load() { // a pause after each write, of as many seconds as it had bytes
			s.Advance(time.Hour)
		}
		if a := c.Answer("GET"); len(a.Text) != size {
			t.Error(a.Status, len(a.Text))
		}
	})
	t.Run("idle", func(t *testing.T) {
		s := lwangotest.StartConfig(t, conn.Config{Limits: conn.Limits{KeepAliveTimeout: time.Hour}})
		c := s.Dial()
		c.Send(get)
		c.Answer("GET")
		s.Advance(time.Hour - time.Minute)
		c.Send(get)
		c.Answer("GET")
		s.Advance(time.Hour)
		if got := c.ReadAll(); got != "" {
			t.Errorf("%q", got)
		}
	})
}

// TestSynctestBubble: a client in a bubble asks a server outside, and the bubble's clock stands
// still meanwhile.
func TestSynctestBubble(t *testing.T) {
	s := lwangotest.Start(t, func(req *lwango.Request, _ *lwango.Response) int {
		if req.Sleep(10*time.Millisecond) != nil {
			return 500
		}
		return 204
	})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp := must.Get(client.Get(s.URL))(t)
		resp.Body.Close()
		if d := time.Since(began); resp.StatusCode != 204 || d != 0 {
			t.Errorf("%s after %v", resp.Status, d)
		}
		time.Sleep(time.Hour) // which the bubble skips
	})
}

// TestRecorder: an http.Handler gives a recorder and the bridge the same answer.
func TestRecorder(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Path", r.URL.Path)
		http.Error(w, "no tea", http.StatusTeapot)
	})
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("GET", "/pot", nil))
	for _, bridge := range []lwango.Handler{lwango.HTTP(h), lwango.HTTPOnLoop(h)} {
		a := lwangotest.Start(t, bridge).Get("/pot")
		if a.StatusCode != rec.Code || a.Text != rec.Body.String() {
			t.Errorf("%s: %q; the recorder has %d: %q", a.Status, a.Text, rec.Code, rec.Body)
		}
		for name := range rec.Header() {
			if got, want := a.Header.Get(name), rec.Header().Get(name); got != want {
				t.Errorf("%s: %q; the recorder has %q", name, got, want)
			}
		}
	}
}

// fails returns how a test fails in which f runs; "" if it does not fail.
func fails(t *testing.T, f func(t testing.TB)) string {
	t.Helper()
	s := &spy{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(s)
	}()
	<-done
	return s.message
}

// spy is a test whose first fatal failure is kept and not reported.
type spy struct {
	testing.TB
	message string
}

func (s *spy) Fatal(args ...any) { s.Fatalf("%s", fmt.Sprint(args...)) }
func (s *spy) Fatalf(format string, args ...any) {
	s.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestFailures(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(s *lwangotest.Server)
		want string
	}{
		{"no field", func(s *lwangotest.Server) { s.Get("/", "Accept") }, `"Accept": not a header field`},
		{"invalid field", func(s *lwangotest.Server) { s.Get("/", "A b: c") }, "invalid header field"},
		{"no path", func(s *lwangotest.Server) { s.Get("nowhere:x") }, "invalid port"},
		{"cut", func(s *lwangotest.Server) { s.Get("/cut") },
			"the answer ends after 3 bytes of the body"},
		{"stopped", func(s *lwangotest.Server) { s.Stop(); s.Get("/") }, "connection refused"},
		{"no answer", func(s *lwangotest.Server) {
			c := s.Dial()
			c.Send("GET /cut HTTP/1.1\r\nHost: x\r\n\r\n")
			c.Answer("GET")
		}, "unexpected EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := fails(t, func(t testing.TB) {
				s := lwangotest.Start(t, func(_ *lwango.Request, resp *lwango.Response) int {
					resp.Header().Set("Content-Length", "10")
					resp.WriteString("cut")
					_ = resp.Flush()
					panic(http.ErrAbortHandler)
				})
				test.do(s)
			})
			if !strings.Contains(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
