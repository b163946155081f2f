package conn_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
)

// TestHeadHooks: each way to an answer calls the hooks once, the last first, with the status that
// goes out, and what they set goes out.
func TestHeadHooks(t *testing.T) {
	late := func(*conn.Request, *conn.Response, int) { t.Error("a hook that came too late") }
	ways := map[string]struct {
		status int
		answer conn.Handler
	}{
		"/whole": {201, func(_ *conn.Request, w *conn.Response) int {
			w.WriteString("x")
			return 201
		}},
		"/empty": {204, func(*conn.Request, *conn.Response) int { return 204 }},
		"/page":  {404, func(*conn.Request, *conn.Response) int { return 404 }},
		"/panic": {500, func(*conn.Request, *conn.Response) int { panic("a test") }},
		"/field": {500, func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("A b", "x")
			return 200
		}},
		"/number": {500, func(*conn.Request, *conn.Response) int { return 17 }},
		"/cleared": {203, func(_ *conn.Request, w *conn.Response) int {
			w.WriteString("lost")
			w.Layer().Clear()
			return 203
		}},
		"/streamed": {202, func(_ *conn.Request, w *conn.Response) int {
			w.SetStatus(202)
			for range 3 {
				w.WriteString("x")
				w.Flush()
				w.Layer().BeforeHead(late)
			}
			return 0
		}},
		"/bridge": {418, conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(418)
		}))},
	}
	outer := func(req *conn.Request, w *conn.Response, status int) {
		w.Header().Add("Seen", fmt.Sprintf("outer %s %d", req.Path(), status))
	}
	inner := func(_ *conn.Request, w *conn.Response, status int) {
		w.Header().Add("Seen", fmt.Sprintf("inner %d", status))
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			w.Layer().BeforeHead(outer)
			w.Layer().BeforeHead(inner)
			return ways[req.Path()].answer(req, w)
		}})
		s.Panics.Expect()
		for path, way := range ways {
			a := s.Request("GET "+path, nil, "")
			want := []string{fmt.Sprintf("inner %d", way.status),
				fmt.Sprintf("outer %s %d", path, way.status)}
			if a.StatusCode != way.status || !slices.Equal(a.Header["Seen"], want) {
				t.Errorf("%s: %s, %q", path, a.Status, a.Header["Seen"])
			}
		}
	}, plain, direct)
}

// TestHeadHookOfOneRequest: the next request of the connection has none, and a field that is not
// valid costs nothing but itself.
func TestHeadHookOfOneRequest(t *testing.T) {
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		if req.Path() == "/hook" {
			w.Layer().BeforeHead(func(_ *conn.Request, w *conn.Response, _ int) {
				w.Header().Set("Bad", "a\r\nb: c")
				w.Header().Set("Good", "x")
			})
		}
		return 200
	}})
	c := s.Dial()
	for path, want := range map[string]string{"/hook": "x", "/": ""} {
		a := c.Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
		if a.StatusCode != 200 || a.Header.Get("Good") != want || a.Header.Get("Bad") != "" {
			t.Errorf("%s: %s, %v", path, a.Status, a.Header)
		}
	}
	if log := s.Log.String(); strings.Count(log, "header left out") != 1 {
		t.Errorf("log:\n%s", log)
	}
}

// TestHeadHookInHook: a hook that sets another one has no effect on those that are still to come,
// or on the next response.
func TestHeadHookInHook(t *testing.T) {
	hook := func(name string) conn.HeadHook {
		return func(_ *conn.Request, w *conn.Response, _ int) {
			w.Header().Add("Seen", name)
			w.Layer().BeforeHead(func(*conn.Request, *conn.Response, int) { t.Error("a hook of a hook") })
		}
	}
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		w.Layer().BeforeHead(hook("outer"))
		w.Layer().BeforeHead(hook("inner"))
		return 200
	}})
	c := s.Dial()
	for range 2 {
		a := c.Do("GET", "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if !slices.Equal(a.Header["Seen"], []string{"inner", "outer"}) {
			t.Errorf("%s: %q", a.Status, a.Header["Seen"])
		}
	}
}

// TestEncodedBody: a hook can send the body in the coding that the handler has given it in,
// whatever the body comes from, and only that one.
func TestEncodedBody(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	must.Write(t, name, "as it is")
	bodies := map[string]func(w *conn.Response){
		"/given": func(w *conn.Response) { w.SetBody([]byte("as it is")) },
		"/file": func(w *conn.Response) {
			f, err := os.Open(name)
			if err != nil {
				panic(err)
			}
			w.SetBodyFile(f, 0, 8)
		},
		"/reader":  func(w *conn.Response) { w.SetBodyReader(strings.NewReader("as it is"), 8) },
		"/endless": func(w *conn.Response) { w.SetBodyReader(strings.NewReader("as it is"), -1) },
		"/written": func(w *conn.Response) { w.WriteString("as it is") },
		"/anew": func(w *conn.Response) {
			w.SetBody([]byte("as it was"))
			w.Layer().SetEncoded("x", []byte("dropped"))
			w.SetBody([]byte("as it is"))
		},
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			w.Layer().SetEncoded("x", []byte("too early"))
			bodies[req.Path()](w)
			if req.Path() != "/anew" {
				w.Layer().SetEncoded("x", []byte("encoded"))
			}
			if w.Layer().UseEncoded("x") {
				t.Error("used outside of a hook")
			}
			w.Layer().BeforeHead(func(req *conn.Request, w *conn.Response, _ int) {
				used := w.Layer().UseEncoded("y") || w.Layer().UseEncoded("x")
				w.Header().Set("Used", fmt.Sprint(used, w.Layer().EncoderSet(), w.Layer().UseEncoded("x")))
			})
			return 200
		}})
		for path := range bodies {
			want, used, length := "encoded", "true true false", int64(7)
			switch path {
			case "/anew", "/written":
				want, used, length = "as it is", "false false false", 8
			}
			c := s.Dial()
			for _, method := range []string{"GET", "HEAD", "GET"} {
				a := c.Do(method, method+" "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
				text := want
				if method == "HEAD" {
					text = ""
				}
				if a.ContentLength != length || a.Header.Get("Used") != used || a.Text != text {
					t.Errorf("%s %s: %v, %d, %q", method, path, a.Header, a.ContentLength, a.Text)
				}
			}
		}
	}, plain, direct)
}

// TestHooksLetGo: hooks and error pages may hold all of a configuration. None is held once its
// answer was given, whatever has become of it, although the connection and what has served it stay.
func TestHooksLetGo(t *testing.T) {
	ways := map[string]conn.Handler{
		"/called": func(*conn.Request, *conn.Response) int { return 200 },
		"/page":   func(*conn.Request, *conn.Response) int { return 404 },
		"/cleared": func(_ *conn.Request, w *conn.Response) int {
			w.Layer().Clear()
			return 200
		},
		"/dropped": func(_ *conn.Request, w *conn.Response) int {
			w.Layer().DropHooks(0, 0)
			return 200
		},
	}
	run(t, func(t *testing.T, m mode) {
		all := make(chan weak.Pointer[[64]int], len(ways))
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			held := new([64]int)
			all <- weak.Make(held)
			for range 2 {
				w.Layer().BeforeHead(func(*conn.Request, *conn.Response, int) { held[0]++ })
			}
			w.Layer().OnError(func(*conn.Request, *conn.Response, int) bool {
				held[1]++
				return false
			})
			return ways[req.Path()](req, w)
		}})
		for path := range ways {
			s.Request("GET "+path, nil, "")
			held := <-all
			for end := time.Now().Add(10 * time.Second); held.Value() != nil; runtime.GC() {
				if time.Now().After(end) {
					t.Fatal(path, "hooks or pages are held")
				}
			}
		}
	}, plain, direct)
}
