package conn_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestAsk: whatever a handler that is asked does, the asker gets its status and header, and nothing
// of it reaches the client. The request goes on as it was, with its body.
func TestAsk(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	var closed atomic.Bool
	var file string // a name
	ways := map[string]struct {
		h    conn.Handler
		want string // status and error
	}{
		"returned": {func(_ *conn.Request, w *conn.Response) int { return 401 }, "401"},
		"nothing":  {func(*conn.Request, *conn.Response) int { return 0 }, "200"},
		"written": {func(_ *conn.Request, w *conn.Response) int {
			w.WriteString("not for the client")
			return 204
		}, "204"},
		"long": {func(_ *conn.Request, w *conn.Response) int {
			w.SetStatus(403)
			w.WriteString(long)
			w.Write([]byte(long))
			return 0
		}, "403"},
		"streamed": {func(_ *conn.Request, w *conn.Response) int {
			w.SetStatus(403)
			w.Write([]byte("not for the client"))
			w.Flush()
			w.Write([]byte("nor this"))
			w.Flush()
			return 0
		}, "403"},
		"relayed": {func(_ *conn.Request, w *conn.Response) int {
			w.Layer().Relay(401, "Who are you")
			w.Inform(103, nil)
			w.AddTrailer("X", "y")
			return 401
		}, "401"},
		"cleared": {func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("Late", "gone")
			w.Layer().Clear()
			w.Write([]byte(long))
			w.Flush()
			return 200
		}, "200"},
		"set": {func(_ *conn.Request, w *conn.Response) int { w.SetBody([]byte(long)); return 200 },
			"200"},
		"reader": {func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyReader(closer{strings.NewReader(long), func() { closed.Store(true) }}, -1)
			return 200
		}, "200"},
		"file": {func(_ *conn.Request, w *conn.Response) int {
			f, err := os.Open(file)
			if err != nil {
				return 500
			}
			w.SetBodyFile(f, 0, 10)
			return 200
		}, "200"},
		"hooks": {func(_ *conn.Request, w *conn.Response) int {
			w.Layer().BeforeHead(func(*conn.Request, *conn.Response, int) { panic("called") })
			w.Layer().OnError(func(*conn.Request, *conn.Response, int) bool { panic("called") })
			w.SetMaxRate(1)
			return 404
		}, "404"},
		"hijack": {func(_ *conn.Request, w *conn.Response) int {
			if _, _, err := w.Hijack(); err != nil {
				return 418
			}
			return 200
		}, "418"},
		"endless": {func(_ *conn.Request, w *conn.Response) int {
			for {
				if _, err := w.Write([]byte(long)); err != nil {
					return 409
				}
			}
		}, "409"},
		"abort": {func(_ *conn.Request, w *conn.Response) int { w.Abort(); return 200 },
			"0 response given up by its handler"},
		"bad-field": {func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("A", "b\n")
			return 200
		}, "0 " + conn.ErrBadField.Error()},
		"thread": {func(req *conn.Request, _ *conn.Response) int {
			req.Go(func(*loop.Thread) error { return errors.New("a thread's") })
			return 200
		}, "0 a thread's"},
		"nested": {func(req *conn.Request, w *conn.Response) int {
			if _, _, err := req.Subrequest("/", nil); err != conn.ErrNestedSubrequest {
				return 500
			}
			return 202
		}, "202"},
		"duplex": {func(req *conn.Request, w *conn.Response) int {
			req.Layer().Duplex()
			w.Write([]byte(long))
			return 202
		}, "202"},
		"sleeps": {func(req *conn.Request, w *conn.Response) int {
			if req.Sleep(time.Millisecond) != nil {
				return 500
			}
			return 202
		}, "202"},
		"library": {conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Seen", fmt.Sprintf("%s %s %d", r.Method, r.URL, len(body)))
			w.WriteHeader(403)
			io.WriteString(w, long)
			w.(http.Flusher).Flush()
		})), "403"},
	}
	handler := func(req *conn.Request, w *conn.Response) int {
		w.Header().Set("Own", "kept")
		first := make([]byte, 2)
		if _, err := io.ReadFull(req.Body(), first); err != nil {
			return 500
		}
		way := ways[req.RawQuery()]
		deferred := false
		status, header, err := req.Subrequest("/check it", func(
			sub *conn.Request, resp *conn.Response) int {
			n, _ := sub.Body().Read(make([]byte, 1))
			view, _ := sub.Layer().HeaderView("Cookie")
			resp.Header().Set("X-Seen", fmt.Sprint(sub.Method(), " ", sub.Target(), " ", sub.Path(), " ",
				sub.RawQuery(), string(sub.Layer().QueryView()), n, sub.ContentLength(), " ", string(view), " ",
				sub.Header().Get("Cookie"), sub.Header().Get("Content-Length"), sub.Header().Get("Connection"),
				sub.Header().Get("Expect")))
			sub.Defer(func() { deferred = true })
			sub.Layer().SetUser("sub", "Basic")
			sub.Layer().ReplaceHeader("Cookie", "other")
			return way.h(sub, resp)
		})
		got := fmt.Sprint(status)
		if err != nil {
			got += " " + err.Error()
		} else if seen := header.Get("X-Seen"); seen != "GET /check%20it /check it 0 0 a=b a=b" &&
			req.RawQuery() != "library" && req.RawQuery() != "cleared" {
			got += " saw " + seen
		} else if req.RawQuery() == "library" && seen != "GET /check%20it 0" {
			got += " saw " + seen
		}
		rest, err := io.ReadAll(req.Body())
		fmt.Fprint(w, got, ";", string(first)+string(rest), err, ";", req.Method(), " ", req.Path(), " ",
			req.Header().Get("Cookie"), " ", req.User(), " ", deferred)
		return 200
	}
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		file = t.TempDir() + "/file"
		must.Write(t, file, long)
		s := server.Start(t, m, conn.Config{Handler: handler})
		for name, way := range ways {
			want := way.want + ";hello<nil>;POST /x a=b  true"
			target := "/x?" + name
			for _, body := range []string{"Content-Length: 5\r\n\r\nhello",
				"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
				"Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello"} {
				c := s.Dial()
				// Two of them: the connection goes on behind each.
				request := "POST " + target + " HTTP/1.1\r\nHost: a\r\nCookie: a=b\r\nConnection: x\r\n" + body
				c.Send(request + request)
				for range 2 {
					a := c.Answer("POST")
					for a.StatusCode == http.StatusContinue { // the body has come in two parts
						a = c.Answer("POST")
					}
					if a.Text != want || a.Header.Get("Own") != "kept" || a.Header.Get("X-Seen") != "" ||
						a.StatusCode != 200 {
						t.Errorf("%s: %s %v\ngot  %s\nwant %s", name, a.Status, a.Header, a.Text, want)
					}
				}
				c.Close()
			}
		}
		if !closed.Swap(false) {
			t.Error("the reader was not closed")
		}
	})
}

// TestAskPanics: a panic is the request's, and the next request finds all in order.
func TestAskPanics(t *testing.T) {
	s := server.Start(t, modes.Direct,
		conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			if req.Path() == "/panic" {
				_, _, err := req.Subrequest("/sub", func(*conn.Request, *conn.Response) int { panic("a test") })
				return 200 + len(err.Error())
			}
			return 204
		}})
	s.Panics.Expect()
	if a := s.Request("GET /panic", nil, ""); a.StatusCode != 500 {
		t.Error(a.Status)
	}
	if a := s.Request("GET /", nil, ""); a.StatusCode != 204 {
		t.Error(a.Status)
	}
}

// TestAskTooLate: there is no other answer behind a head that has gone out.
func TestAskTooLate(t *testing.T) {
	s := server.Start(t, modes.Direct,
		conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			w.Flush()
			_, _, err := req.Subrequest("/sub", func(*conn.Request, *conn.Response) int { return 200 })
			fmt.Fprint(w, err)
			return 0
		}})
	if a := s.Request("GET /", nil, ""); a.Text != conn.ErrComplete.Error() {
		t.Error(a.Text)
	}
}

// TestReplaceHeader: every way to look at the header shows the same.
func TestReplaceHeader(t *testing.T) {
	show := func(req *conn.Request) string {
		view, ok := req.Layer().HeaderView("Remote-User")
		var views []string
		for _, v := range req.Layer().AppendHeaderViews(nil, "remote-user") {
			views = append(views, string(v))
		}
		return fmt.Sprint(string(view), ok, views, req.Header().Values("REMOTE-USER"),
			req.Header().Values("Remote_User"), req.Header().Values("Remote_Users"), " ", req.Path(), " ",
			req.Target(), " ", req.RawQuery())
	}
	s := server.Start(t, modes.Direct,
		conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			if req.Method() == "PUT" {
				req.Header() // made before the change
			}
			path := req.Path()
			switch path {
			case "/none":
				req.Layer().ReplaceHeader("Remote-User")
			case "/two":
				req.Layer().ReplaceHeader("Remote-User", "ann", "bob")
				req.Layer().ReplaceHeader("Remote-User", "ann", "eve")
			}
			fmt.Fprint(w, show(req))
			return 200
		}})
	for _, method := range []string{"GET ", "PUT "} {
		for path, want := range map[string]string{
			"/none": "false [] [] [] [1]", "/two": "anntrue [ann eve] [ann eve] [] [1]",
			"/": "forgedtrue [forged] [forged] [also] [1]",
		} {
			a := s.Request(method+path+"?q",
				[]string{"Remote-User: forged", "remote_user: also", "Remote_Users: 1"}, "")
			if want += " " + path + " " + path + "?q q"; a.Text != want {
				t.Errorf("%s%s: got %s, want %s", method, path, a.Text, want)
			}
		}
	}
}

// TestAskHalfClosed: a client that has ended its half with the request gets the judgment that
// others get, and a handler that gives up because of that end has not judged.
func TestAskHalfClosed(t *testing.T) {
	asked := map[string]conn.Handler{
		"gives up": func(req *conn.Request, _ *conn.Response) int { // however it notices
			for end := time.Now().Add(wait.Patience); !req.Gone() && time.Now().Before(end); {
				_ = req.Sleep(time.Millisecond)
			}
			return 0
		},
		"waits": func(req *conn.Request, _ *conn.Response) int {
			if req.Sleep(20*time.Millisecond) != nil {
				return 0
			}
			return 403
		},
		"library": conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(20 * time.Millisecond):
				w.WriteHeader(403)
			}
		})),
	}
	want := map[string]string{"gives up": "0 " + loop.ErrClientGone.Error(), "waits": "403 <nil>",
		"library": "403 <nil>"}
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		for name, h := range asked {
			s := server.Start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
				outer := req.Context()
				status, _, err := req.Subrequest("/", h)
				fmt.Fprint(w, status, " ", err)
				if req.Gone() && outer.Err() == nil {
					t.Error("the request's own context goes on")
				}
				return 200
			}})
			c := s.Dial()
			c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			c.CloseWrite()
			if a := c.Answer("GET"); a.Text != want[name] {
				t.Errorf("%s: %s %q, want %q", name, a.Status, a.Text, want[name])
			}
		}
	}, modes.Plain, modes.Direct) // with TLS it shows when more is read
}

// TestReplacedTrailer: what the client says of a replaced field behind the body counts no more than
// what it says in the header, however a handler reads it; the next request starts anew.
func TestReplacedTrailer(t *testing.T) {
	trailer := func(req *conn.Request, w *conn.Response) int {
		req.Body().KeepTrailer()
		if _, err := io.Copy(io.Discard, req.Body()); err != nil {
			t.Error(err)
		}
		req.Body().Trailer(func(name, value string) { fmt.Fprint(w, name, "=", value, " ") })
		return 200
	}
	std := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"Remote-User", "Remote_user", "X"} {
			for _, value := range r.Trailer[name] {
				fmt.Fprint(w, name, "=", value, " ")
			}
		}
	}
	for name, h := range map[string]conn.Handler{
		"native": trailer, "http": conn.HTTP(http.HandlerFunc(std)),
		"on loop": conn.HTTPOnLoop(http.HandlerFunc(std)),
	} {
		s := server.Start(t, modes.Direct,
			conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
				if req.Path() == "/replaced" {
					req.Layer().ReplaceHeader("remote-user", "ann")
					_, _, err := req.Subrequest("/x", func(req *conn.Request, _ *conn.Response) int {
						req.Layer().ReplaceHeader("X")
						return 200
					})
					if err != nil {
						t.Error(err)
					}
				}
				return h(req, w)
			}})
		c := s.Dial()
		for _, path := range []string{"/replaced", "/"} {
			c.Send("POST " + path + " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
				"1\r\nx\r\n0\r\nRemote-User: admin\r\nRemote_User: root\r\nX: y\r\n\r\n")
			want := "X=y "
			if path == "/" {
				want = "Remote-User=admin Remote_User=root X=y "
			}
			if a := c.Answer("POST"); !strings.EqualFold(a.Text, want) {
				t.Errorf("%s%s: %q, want %q", name, path, a.Text, want)
			}
		}
	}
}
