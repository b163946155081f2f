package conn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/loop"
)

// uses are what a handler may do to a request that it has kept, with what comes of it when the
// request is over: an error, or a text of what is empty.
var uses = map[string]func(req *conn.Request, resp *conn.Response) error{
	"Sleep": func(req *conn.Request, _ *conn.Response) error { return req.Sleep(time.Millisecond) },
	"Await": func(req *conn.Request, _ *conn.Response) error {
		return req.Await(-1, func(context.Context) error { return nil })
	},
	"AwaitAny": func(req *conn.Request, _ *conn.Response) error {
		_, err := req.AwaitAny(-1)
		return err
	},
	"AwaitAll": func(req *conn.Request, _ *conn.Response) error { return req.AwaitAll(-1) },
	"ReadFD": func(req *conn.Request, _ *conn.Response) error {
		_, err := req.ReadFD(-1, 0, nil)
		return err
	},
	"Scope": func(req *conn.Request, _ *conn.Response) error {
		return req.Scope(func() error { return nil })
	},
	"Join": func(req *conn.Request, _ *conn.Response) error { return req.Join() },
	"conn.Await": func(req *conn.Request, _ *conn.Response) error {
		_, err := conn.Await(req, -1, func(context.Context) (int, error) { return 1, nil })
		return err
	},
	"conn.Call": func(req *conn.Request, _ *conn.Response) error {
		_, err := conn.Call(req, -1, func(context.Context) (int, error) { return 1, nil }).Value()
		return err
	},
	"Context": func(req *conn.Request, _ *conn.Response) error {
		if req.Context().Err() == nil {
			return errors.New("it has not ended")
		}
		return conn.ErrComplete
	},
	"what is there": func(req *conn.Request, resp *conn.Response) error {
		return empty(req.Path(), req.Target(), req.RawQuery(), req.Host(), req.PathValue("id"),
			req.User(), req.Layer().Listener(), req.Query().Encode(), string(req.Layer().PathView()))
	},
	"addresses": func(req *conn.Request, _ *conn.Response) error {
		if req.RemoteAddr().IsValid() || req.PeerAddr().IsValid() || req.LocalAddr().IsValid() ||
			req.TLS() != nil || req.Secure() || !req.Gone() || req.ID() != "" {
			return errors.New("there is a connection")
		}
		return conn.ErrComplete
	},
	"request header": func(req *conn.Request, _ *conn.Response) error {
		h := req.Header()
		h.Set("X-Kept", "kept")
		_, ok := req.Layer().HeaderView("cookie")
		return empty(strings.Repeat("x", h.Len()-1), req.Header().Get("X-Kept"),
			strings.Repeat("x", map[bool]int{true: 1}[ok]))
	},
	"user": func(req *conn.Request, _ *conn.Response) error {
		req.Layer().SetUser("kept", "Basic")
		return empty(req.User())
	},
	"rewrite": func(req *conn.Request, _ *conn.Response) error {
		req.Layer().ReplaceHeader("X-Kept", "kept")
		return errors.Join(req.Layer().Rewrite("/kept"), empty(req.Path(), req.Header().Get("X-Kept")))
	},
	"form": func(req *conn.Request, _ *conn.Response) error { _, err := req.Form(); return err },
	"bind": func(req *conn.Request, _ *conn.Response) error {
		var v struct{ A string }
		_ = req.BindQuery(&v)
		_ = req.BindJSON(&v)
		return empty(v.A)
	},
	"body": func(req *conn.Request, _ *conn.Response) error {
		text, err := io.ReadAll(req.Body())
		return errors.Join(err, empty(string(text)))
	},
	"spool": func(req *conn.Request, _ *conn.Response) error {
		_, _, err := req.Layer().Spool(1 << 10)
		return err
	},
	"file": func(req *conn.Request, _ *conn.Response) error {
		_, err := req.Layer().TempFile()
		return err
	},
	"response header": func(_ *conn.Request, resp *conn.Response) error {
		resp.Header().Set("X-Kept", "kept")
		resp.Header().Vary("X-Kept")
		return errors.Join(resp.SetCookie(&http.Cookie{Name: "kept", Value: "kept"}),
			empty(resp.Header().Get("X-Kept")))
	},
	"write": func(_ *conn.Request, resp *conn.Response) error {
		resp.SetStatus(500)
		resp.SetMaxRate(1)
		resp.AddTrailer("X-Kept", "kept")
		_, err := resp.WriteString("kept")
		return err
	},
	"flush": func(_ *conn.Request, resp *conn.Response) error { return resp.Flush() },
	"hijack": func(_ *conn.Request, resp *conn.Response) error {
		_, _, err := resp.Hijack()
		return err
	},
	"answers": func(_ *conn.Request, resp *conn.Response) error {
		resp.JSON(500, "kept")
		resp.Text(500, "kept")
		resp.Redirect(302, "/kept")
		resp.Error(400, errors.New("kept"))
		resp.Error(500, errors.New("kept"))
		resp.SetBody([]byte("kept"))
		resp.SetBodyReader(strings.NewReader("kept"), -1)
		resp.Precondition(`"kept"`, time.Now())
		resp.ServeContent("kept.html", time.Now(), strings.NewReader("kept"), 4)
		resp.Layer().Relay(500, "kept")
		resp.Abort()
		return conn.ErrComplete
	},
}

func empty(texts ...string) error {
	if all := strings.Join(texts, "|"); all != strings.Repeat("|", len(texts)-1) {
		return fmt.Errorf("have %q", all)
	}
	return conn.ErrComplete
}

// TestKeptRequest: a handler keeps its request, and uses it between two requests. The invariants
// tag names the fault; without it there is an error, and the next request, whose record is the
// same, is as it was sent.
func TestKeptRequest(t *testing.T) {
	const first = "POST /first/7?a=1 HTTP/1.1\r\nHost: a\r\nCookie: c=d\r\nContent-Length: " +
		"4\r\n\r\nbody"
	const second = "POST /second?a=2 HTTP/1.1\r\nHost: b\r\nX-Own: own\r\nContent-Length: 3\r\n\r\nown"
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, m mode) {
				var req *conn.Request
				var resp *conn.Response
				s := start(t, m, conn.Config{Handler: func(r *conn.Request, w *conn.Response) int {
					if req == nil {
						req, resp = r, w
						return w.Text(200, "first")
					}
					if r != req && !invariants.Enabled {
						t.Error("this request has another record: nothing is tested")
					}
					text, err := io.ReadAll(r.Body())
					return w.Text(200, fmt.Sprintln(r.Path(), r.Query(), r.Header().Len(),
						r.Header().Get("X-Own"), string(text), err, r.User()))
				}})
				c := s.Dial()
				c.Do("POST", first)
				s.Settle()
				s.On(func(l *loop.Loop) { // between two requests
					defer func() {
						if p := recover(); (p != nil) != invariants.Enabled {
							t.Errorf("panic: %v", p)
						}
					}()
					if err := use(req, resp); !errors.Is(err, conn.ErrComplete) {
						t.Error(err)
					}
				})
				a := s.Dial().Do("POST", second)
				const want = "/second map[a:[2]] 3 own own <nil> \n"
				if a.Text != want || a.StatusCode != 200 {
					t.Errorf("%d %q\nwant %q", a.StatusCode, a.Text, want)
				}
				if len(a.Header) != 3 { // Date, Content-Type, Content-Length
					t.Error(a.Header)
				}
			}, plain, direct)
		})
	}
}

// TestWaitsOfAnotherRequest: a handler waits with the request of another handler, which is waiting
// itself, on the same loop or on another one. That is the fault of the first, and harms no other.
func TestWaitsOfAnotherRequest(t *testing.T) {
	type over = chan struct{}
	waits := map[string]func(req *conn.Request, end over) error{
		"Sleep": func(req *conn.Request, _ over) error { return req.Sleep(time.Millisecond) },
		"Yield": func(req *conn.Request, _ over) error { req.Yield(); return nil },
		"Await": func(req *conn.Request, end over) error {
			// A function that has returned already would need no wait.
			return req.Await(-1, func(context.Context) error { <-end; return nil })
		},
		"After": func(req *conn.Request, _ over) error {
			_, err := req.AwaitAny(-1, req.After(time.Hour))
			return err
		},
		"Body": func(req *conn.Request, _ over) error { _, err := io.ReadAll(req.Body()); return err },
	}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, m mode) {
				waiting, release := make(chan *conn.Request, 1), make(chan struct{})
				s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
					if req.Path() == "/kept" {
						waiting <- req
						if _, err := req.AwaitAny(-1, loop.FromChan(release)); err != nil {
							t.Error(err)
						}
						return resp.Text(200, req.Path())
					}
					kept := <-waiting // it is there already
					defer close(release)
					return resp.Text(200, fmt.Sprint(wait(kept, release)))
				}})
				s.Panics.Expect()
				c := s.Dial()
				c.Send("POST /kept HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n")
				s.Settled("a handler that waits", func(*loop.Loop) bool { return len(waiting) == 1 })
				s.Settle()
				if a := s.Dial().Do("GET", get); a.StatusCode != 500 {
					t.Errorf("the fault: %d %q", a.StatusCode, a.Text)
				}
				if a := c.Do("POST", "body"); a.StatusCode != 200 || a.Text != "/kept" {
					t.Errorf("the other: %d %q", a.StatusCode, a.Text)
				}
			}, plain, direct)
		})
	}
}
