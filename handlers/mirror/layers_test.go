package mirror_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/mirror"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
)

// first is what calls f with a request before the mirror sees it.
func first(f func(*conn.Request)) func(*handlers.SiteRoutes) handlers.Middleware {
	return func(*handlers.SiteRoutes) handlers.Middleware {
		return func(next conn.Handler) conn.Handler {
			return func(req *conn.Request, resp *conn.Response) int {
				f(req)
				return next(req, resp)
			}
		}
	}
}

// TestRewritten: a copy of a request that was rewritten is below the route of the copies, for a
// handler of net/http, too.
func TestRewritten(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	s := startBehind(t, modes.Direct, mirror.Settings{}, first(func(req *conn.Request) {
		must.Do(t, req.Layer().Rewrite("/new%2Fpath?z=1"))
	}), echo, conn.HTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- fmt.Sprint(r.URL, " ", r.URL.Path, " ", r.URL.RawQuery, " ", r.RequestURI)
	})))
	s.Request("GET /old?a=b", nil, "")
	const want = "/copy/new%2Fpath?z=1 /copy/new/path z=1 /copy/new%2Fpath?z=1"
	if g := <-got; g != want {
		t.Errorf("got  %s\nwant %s", g, want)
	}
}

// TestTwoMirrors: a mirror of the site and one of the route both have their copies, with the body.
func TestTwoMirrors(t *testing.T) {
	t.Parallel()
	s := startBehind(t, modes.Direct, mirror.Settings{},
		func(routes *handlers.SiteRoutes) handlers.Middleware {
			return must.Get(mirror.New(mirror.Settings{To: "/copy/2"}, handlers.Env{Prefix: "/",
				Process: around.In(around.Context{
					Process: told{seen: new([]atomic.Int64)}, Routes: routes})}))(t)
		}, echo, nil)
	for _, fields := range [][]string{{"Content-Length: 8"}, {"Transfer-Encoding: chunked"}} {
		body := "12345678"
		if strings.HasPrefix(fields[0], "T") {
			body = "8\r\n12345678\r\n0\r\n\r\n"
		}
		s.Request("POST /x", fields, body)
		got := []string{<-s.copies, <-s.copies}
		slices.Sort(got)
		if !strings.HasPrefix(got[0], "POST /copy/2/x ") || !strings.HasPrefix(got[1], "POST /copy/x ") ||
			!strings.Contains(got[0], " 8 true 12345678 ") ||
			!strings.Contains(got[1], " 8 true 12345678 ") {
			t.Errorf("%q", got)
		}
	}
}

// TestPart: where a part of the body was read in front of the mirror, the rest is no copy.
func TestPart(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 8} {
		s := startBehind(t, modes.Direct, mirror.Settings{}, first(func(req *conn.Request) {
			if _, err := io.ReadFull(req.Body(), make([]byte, n)); err != nil {
				t.Error(err)
			}
		}), echo, nil)
		s.Request("POST /x", []string{"Content-Length: 8"}, "12345678")
		s.await(t, "a part", [5]int64{4: 1})
		s.Request("POST /x", []string{"Transfer-Encoding: chunked"}, "8\r\n12345678\r\n0\r\n\r\n")
		s.await(t, "a part", [5]int64{4: 2})
	}
}

// TestSlowUploads: clients whose bodies do not come take no place from others, and hold so many
// bytes.
func TestSlowUploads(t *testing.T) {
	t.Parallel()
	s := start(t, modes.Direct, mirror.Settings{MaxRequests: 2, MaxBodySize: 8}, echo, nil)
	ask := func(line, body string) {
		t.Helper()
		s.Request(line, []string{fmt.Sprint("Content-Length: ", len(body))}, body)
		if got := <-s.copies; !strings.Contains(got, " true "+body+" ") {
			t.Error(got)
		}
	}
	clients := slices.Repeat([]string{"123456"}, 3) // the third one has no room
	var slow []func()
	for i, part := range clients {
		c := s.Dial()
		c.Send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n" + part)
		s.Settle()
		slow = append(slow, func() {
			c.Send("78")
			c.Answer("POST")
			if i < 2 {
				if got := <-s.copies; !strings.Contains(got, " true 12345678 ") {
					t.Error(got)
				}
			}
		})
	}
	s.await(t, "slow clients", [5]int64{3: 1})
	ask("GET /", "")
	ask("POST /", "1234")
	s.await(t, "others", [5]int64{1: 2, 3: 1})
	for _, end := range slow {
		end()
	}
	s.await(t, "all", [5]int64{1: 4, 3: 1})
	ask("POST /", "12345678")
}

// TestReplacedBody: a copy has the body that the client has sent, and not one that a middleware of
// net/http has put in its place, in front of the mirror or behind it.
func TestReplacedBody(t *testing.T) {
	t.Parallel()
	upper := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body := r.Body
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(strings.NewReader("longer "), upperReader{body}), body}
			next.ServeHTTP(w, r)
		})
	}
	for name, form := range map[string]func(func(http.Handler) http.Handler) func(conn.Handler,
	) conn.Handler{"off the loop": conn.HTTPMiddleware, "on the loop": conn.HTTPMiddlewareOnLoop} {
		for _, where := range []string{"behind", "in front"} {
			var s *site
			if where == "behind" {
				s = start(t, modes.Direct, mirror.Settings{}, form(upper)(echo), nil)
			} else {
				s = startBehind(t, modes.Direct, mirror.Settings{},
					func(*handlers.SiteRoutes) handlers.Middleware { return form(upper) }, echo, nil)
			}
			for field, body := range map[string]string{"Content-Length: 4": "body",
				"Transfer-Encoding: chunked": "4\r\nbody\r\n0\r\n\r\n"} {
				a := s.Request("POST /x", []string{field}, body)
				if a.Text != "longer BODYreal /x" {
					t.Errorf("%s, %s, %s: the request: %q", name, where, field, a.Text)
				}
				const want = "POST /copy/x /copy/x  test.example   4 true body <nil>"
				if got := <-s.copies; got != want {
					t.Errorf("%s, %s, %s: got %q\nwant %q", name, where, field, got, want)
				}
			}
		}
	}
}

type upperReader struct{ r io.Reader }

func (u upperReader) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	copy(p, strings.ToUpper(string(p[:n])))
	return n, err
}
