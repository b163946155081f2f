package lwangotest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/lwangotest"
)

// TestDoWithoutHost: a request of http.NewRequest with a path alone is one for example.com.
func TestDoWithoutHost(t *testing.T) {
	r, err := http.NewRequest("GET", "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	a := lwangotest.Do(t, func(req *lwango.Request, resp *lwango.Response) int {
		return resp.Text(200, req.Host())
	}, r)
	if a.StatusCode != 200 || a.Text != "example.com" {
		t.Error(a.Status, a.Text)
	}
}

// TestDoRequest: the handler gets all of the request that a client could send, and the test all of
// the answer.
func TestDoRequest(t *testing.T) {
	show := func(req *lwango.Request, resp *lwango.Response) int {
		body, err := io.ReadAll(req.Body())
		if err != nil {
			return resp.Error(400, err)
		}
		resp.Header().Set("X-Seen", req.Header().Get("X-A"))
		resp.Header().Add("Set-Cookie", "a=b")
		fmt.Fprintf(resp, "%s %s?%s %s %q from %s, secure %v, agent %q, forwarded for %q", req.Method(),
			req.Path(), req.RawQuery(), req.Host(), body, req.RemoteAddr(), req.Secure(),
			req.Header().Get("User-Agent"), req.Header().Get("X-Forwarded-For"))
		return 201
	}
	for _, row := range []struct {
		method, target, body string
		change               func(r *http.Request)
		want                 string
	}{
		{"GET", "/a?b=c", "", nil, `GET /a?b=c example.com "" from 192.0.2.1:1234, secure false, ` +
			`agent "", forwarded for ""`},
		{"POST", "https://shop.test/x", "body", func(r *http.Request) {
			r.RemoteAddr = "[2001:db8::1]:9"
			r.Header.Set("User-Agent", "me")
			r.Header.Set("X-Forwarded-For", "203.0.113.1") // which no one says who is trusted
		}, `POST /x? shop.test "body" from [2001:db8::1]:9, secure true, agent "me", ` +
			`forwarded for "203.0.113.1"`},
		{"PUT", "/", "chunks", func(r *http.Request) { r.ContentLength, r.RemoteAddr = -1, "" },
			`PUT /? example.com "chunks" from 192.0.2.1:1234, secure false, agent "", ` +
				`forwarded for ""`},
	} {
		var body io.Reader
		if row.body != "" {
			body = strings.NewReader(row.body)
		}
		r := httptest.NewRequest(row.method, row.target, body)
		r.Header.Set("X-A", "y")
		if row.change != nil {
			row.change(r)
		}
		a := lwangotest.Do(t, show, r)
		if a.StatusCode != 201 || a.Text != row.want || a.Header.Get("X-Seen") != "y" ||
			len(a.Cookies()) != 1 {
			t.Errorf("%s %v: %s\nwant %s", a.Status, a.Header, a.Text, row.want)
		}
	}
	if a := lwangotest.Do(t, show, httptest.NewRequest("HEAD", "/", nil)); a.StatusCode != 201 ||
		a.Text != "" {
		t.Errorf("HEAD: %s %q", a.Status, a.Text)
	}
}

// TestDoWaits: a handler may wait in all the ways that it may in a server.
func TestDoWaits(t *testing.T) {
	leak.Goroutines(t)
	h := func(req *lwango.Request, resp *lwango.Response) int {
		if err := req.Sleep(time.Millisecond); err != nil {
			return resp.Error(500, err)
		}
		n, err := lwango.Await(req, time.Minute, func(context.Context) (int, error) { return 20, nil })
		if err != nil {
			return resp.Error(500, err)
		}
		more := 0
		req.Go(func(th *loop.Thread) error {
			more = 2
			return th.Sleep(time.Millisecond)
		})
		if err := req.Join(); err != nil {
			return resp.Error(500, err)
		}
		fmt.Fprint(resp, n+more)
		return 200
	}
	if a := lwangotest.Do(t, h, httptest.NewRequest("GET", "/", nil)); a.Text != "22" {
		t.Errorf("%s %q", a.Status, a.Text)
	}
}

// TestDoLarge: request and answer are both longer than the sockets hold; a handler that reads
// nothing answers, too.
func TestDoLarge(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 1<<18)
	request := func() *http.Request { return httptest.NewRequest("POST", "/", strings.NewReader(body)) }
	a := lwangotest.Do(t, func(req *lwango.Request, resp *lwango.Response) int {
		if _, err := io.Copy(resp, req.Body()); err != nil {
			return 400
		}
		return 200
	}, request())
	if a.Text != body {
		t.Errorf("%s: %d bytes", a.Status, len(a.Text))
	}
	a = lwangotest.Do(t, func(_ *lwango.Request, resp *lwango.Response) int {
		return resp.Text(413, "too much")
	}, request())
	if a.StatusCode != 413 || a.Text != "too much" {
		t.Errorf("unread: %s %q", a.Status, a.Text)
	}
}

// TestDoClientLeaves: when the request's context ends, the handler learns it, and Do waits for it.
func TestDoClientLeaves(t *testing.T) {
	leak.Goroutines(t)
	ctx, cancel := context.WithCancel(t.Context())
	var got error
	a := lwangotest.Do(t, func(req *lwango.Request, _ *lwango.Response) int {
		cancel()
		got = req.Sleep(time.Hour)
		return 200
	}, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
	if a.StatusCode != 0 || !errors.Is(got, lwango.ErrClientGone) {
		t.Errorf("status %d, the handler's wait: %v", a.StatusCode, got)
	}
}

// TestDoFails: what is wrong with an answer, or a request, fails the test, with words.
func TestDoFails(t *testing.T) {
	for want, h := range map[string]lwango.Handler{
		"the answer ends after 3 bytes of the body": func(_ *lwango.Request, resp *lwango.Response) int {
			resp.Header().Set("Content-Length", "10")
			resp.WriteString("cut")
			_ = resp.Flush()
			panic(http.ErrAbortHandler)
		},
		"GET /x: no answer: unexpected EOF": func(_ *lwango.Request, resp *lwango.Response) int {
			resp.Abort()
			return 0
		},
	} {
		got := fails(t, func(t testing.TB) { lwangotest.Do(t, h, httptest.NewRequest("GET", "/x", nil)) })
		if !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// BenchmarkDo: what a unit test pays.
func BenchmarkDo(b *testing.B) {
	for b.Loop() {
		a := lwangotest.Do(b, func(_ *lwango.Request, resp *lwango.Response) int {
			return resp.Text(200, "hello")
		}, httptest.NewRequest("GET", "/", nil))
		if a.Text != "hello" {
			b.Fatal(a.Text)
		}
	}
}
