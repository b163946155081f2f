package cache_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestChangeAtHead: once the head of an answer to POST has come, nobody gets what was kept before,
// however long its body takes. It takes effect once.
func TestChangeAtHead(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		var n, told atomic.Int32
		rest := new(loop.Promise[bool])
		s := start(t, m, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
			if req.Method() == "GET" {
				return counting(&n, "max-age=100")(req, w)
			}
			w.Write([]byte("begin"))
			w.Flush()
			if _, err := rest.Await(req.Thread, wait.Patience); err != nil {
				return 500
			}
			return 200
		})
		s.store.Share(func([]byte, bool) { told.Add(1) })
		get(t, s, "/x")
		c := s.Dial()
		c.Send("POST /x HTTP/1.1\r\nHost: test.example\r\nContent-Length: 0\r\n\r\n")
		must.Get(c.R.ReadString('\n'))(t)
		if a, said := get(t, s, "/x"); a.Text != "2" {
			t.Errorf("while the body comes: %s", said)
		}
		rest.Resolve(true)
		for line := ""; line != "0\r\n"; {
			line = must.Get(c.R.ReadString('\n'))(t)
		}
		if a, said := get(t, s, "/x"); a.Text != "2" || told.Load() != 1 {
			t.Errorf("afterwards: %s, others were told %d times", said, told.Load())
		}
	}, modes.Direct)
}

// TestLongChange: a POST to a URL that is too long to be a key tells nobody, and one with a "&"
// takes no more than its length.
func TestLongChange(t *testing.T) {
	s := start(t, modes.Direct, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
		return 204
	})
	var said atomic.Pointer[string]
	s.store.Share(func(text []byte, _ bool) { said.Store(new(string(text))) })
	s.Request("POST /?"+strings.Repeat("a&", 5<<10), nil, "")
	if text := said.Load(); text != nil {
		t.Errorf("%.100s", *text)
	}
	s.Request("POST /?a&b", nil, "")
	if text := said.Load(); text == nil || *text != `{"urls":["http://test.example/?a&b"]}` {
		t.Error(text)
	}
}

// TestSharedTags: processes tell each other tags that are not UTF-8.
func TestSharedTags(t *testing.T) {
	var all [2]*cached
	for i := range all {
		all[i] = start(t, modes.Direct, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
			fields(w, "Cache-Control: max-age=100", "Cache-Tag: b\xe4r")
			return w.Text(200, "")
		})
		get(t, all[i], "/")
	}
	all[0].store.Share(func(text []byte, _ bool) {
		if err := all[1].store.Shared([]byte("no purge"), text); err == nil {
			t.Error("something else is a purge")
		}
	})
	must.Do(t, all[0].store.Purge(cache.Purge{Tags: []string{"b\xe4r"}}))
	for i, s := range all {
		if got := left(t, s, "/"); got != "" {
			t.Errorf("process %d: it is left", i)
		}
	}
}

// TestChangeOfAllSpellings: a POST to a URL drops what is kept of it in other spellings that mean
// the same; those are answers of their own still, and what may be another page stays.
func TestChangeOfAllSpellings(t *testing.T) {
	var n atomic.Int32
	s := start(t, modes.Direct, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
		if req.Method() == "GET" {
			return counting(&n, "max-age=100")(req, w)
		}
		return 204
	})
	targets := []string{"/a~b?q=%61", "/%61~b?q=%61", "/a%7eb?q=%61", "/%61%7Eb?q=%61", "/./a~b?q=%61",
		"/c/../a~b?q=%61",
		"/%2E/%61~b?q=%61", "//a~b?q=%61", "http://test.example/./a~b?q=%61",
		"/a~b?q=a", "/a%2fb?q=%61", "/%41~b?q=%61", "/a~b/.?q=%61", "/.a~b?q=%61", "/a~b/..a?q=%61"}
	const same = 9
	ask := func() (texts []string) {
		for _, target := range targets {
			a, _ := get(t, s, target)
			texts = append(texts, a.Text)
		}
		return texts
	}
	first := ask()
	for i := range first {
		for _, x := range first[:i] {
			if x == first[i] {
				t.Errorf("%s has the answer of another target", targets[i])
			}
		}
	}
	for _, target := range targets[:same] {
		before := ask()
		s.Request("POST "+target, nil, "")
		for i, x := range ask() {
			if (x != before[i]) != (i < same) {
				t.Errorf("after a POST to %s, %s is %s, and was %s", target, targets[i], x, before[i])
			}
		}
	}
	for _, tt := range []struct {
		purge cache.Purge
		new   int
	}{
		{cache.Purge{URLs: []string{"//test.example/%61~b?q=%61"}}, same},
		{cache.Purge{URLs: []string{"http://test.example/x/.././a~b?q=%61"}}, same},
		{cache.Purge{URLs: []string{"http://test.example/a~b/.?q=%61"}}, 1},
		{cache.Purge{URLs: []string{"http://test.example/%zz", "http://test.example/../.."}}, 0},
		{cache.Purge{Prefixes: []string{"//test.example/."}}, 1},
		{cache.Purge{Prefixes: []string{"//test.example/x/../a%7e"}}, same + 3},
		{cache.Purge{Prefixes: []string{"//test.example/c/.."}}, 0},
		{cache.Purge{Prefixes: []string{"//test.example/%zz"}}, 0},
	} {
		before := int(n.Load())
		must.Do(t, s.store.Purge(tt.purge))
		if ask(); int(n.Load()) != before+tt.new {
			t.Errorf("%+v: %d answers are new, want %d", tt.purge, int(n.Load())-before, tt.new)
		}
	}
}

// TestChangeOfRewritten: what the answer to a POST names by a relative Location is relative to what
// the client has asked for, whatever a rule makes of that.
func TestChangeOfRewritten(t *testing.T) {
	var n atomic.Int32
	c := &cached{store: open(t)}
	inner := must.Get(cache.New(c.store, cache.Settings{}, handlers.Env{}))(t)(
		func(req *conn.Request, w *conn.Response) int {
			if req.Method() == "GET" {
				return counting(&n, "max-age=100")(req, w)
			}
			fields(w, "Location: made", "Content-Location: ?q")
			return 201
		})
	c.Server = serveAll(t, func(req *conn.Request, w *conn.Response) int {
		if err := req.Layer().Rewrite("/app/index.php?x"); err != nil {
			return 500
		}
		return inner(req, w)
	})
	targets := []string{"/shop/made", "/shop/new?q", "/app/made", "/app/index.php?q", "/made"}
	for _, asked := range []string{"/shop/new?a", "http://test.example/shop/new"} {
		before := make(map[string]string)
		for _, target := range targets {
			a, _ := get(t, c, target)
			before[target] = a.Text
		}
		c.Request("POST "+asked, nil, "")
		for i, target := range targets {
			if a, _ := get(t, c, target); (a.Text != before[target]) != (i < 2) {
				t.Errorf("after a POST to %s, %s is %s, and was %s", asked, target, a.Text, before[target])
			}
		}
	}
}
