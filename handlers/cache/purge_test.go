package cache_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
)

// tagged answers so that the answer is kept, with tags by the path: /a/1 has a, 1 and all.
func tagged(req *conn.Request, w *conn.Response) int {
	h := w.Header()
	h.Set("Cache-Control", "max-age=100, stale-while-revalidate=100")
	h.Add("Cache-Tag", strings.ReplaceAll(strings.Trim(req.Path(), "/"), "/", ", "))
	h.Add("Surrogate-Key", "all "+req.Method())
	return w.Text(200, req.Path())
}

// left asks for all targets, and returns those that come from the cache: hits, and in brackets what
// is stale.
func left(t *testing.T, s *cached, targets ...string) (text string) {
	t.Helper()
	var all []string
	for _, target := range targets {
		switch _, said := get(t, s, target); {
		case strings.Contains(said, "; hit; ttl=0"), strings.Contains(said, "; hit; ttl=-"):
			all = append(all, "["+target+"]")
		case strings.Contains(said, "; hit"):
			all = append(all, target)
		}
	}
	return strings.Join(all, " ")
}

// TestPurge: what a purge names is gone, or stale; the rest stays.
func TestPurge(t *testing.T) {
	targets := []string{"/a/1", "/a/1?x", "/a/2", "/b/1", "/b/12"}
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		for _, tt := range []struct {
			name string
			p    cache.Purge
			want string
		}{
			{"a URL", cache.Purge{URLs: []string{"HOST/a/1"}}, "/a/1?x /a/2 /b/1 /b/12"},
			{"URLs", cache.Purge{URLs: []string{"HOST/a/1?x", "HOST/b/1#here"}}, "/a/1 /a/2 /b/12"},
			{"another host", cache.Purge{URLs: []string{"//other.example/a/1"}},
				"/a/1 /a/1?x /a/2 /b/1 /b/12"},
			{"a prefix", cache.Purge{Prefixes: []string{"HOST/b/1"}}, "/a/1 /a/1?x /a/2"},
			{"a folder", cache.Purge{Prefixes: []string{"HOST/a/"}}, "/b/1 /b/12"},
			{"a tag", cache.Purge{Tags: []string{"1"}}, "/a/2 /b/12"},
			{"tags", cache.Purge{Tags: []string{"2", "12"}}, "/a/1 /a/1?x /b/1"},
			{"a tag of all", cache.Purge{Tags: []string{"all"}}, ""},
			{"no such tag", cache.Purge{Tags: []string{"al"}}, "/a/1 /a/1?x /a/2 /b/1 /b/12"},
			{"both", cache.Purge{Tags: []string{"a"}, URLs: []string{"HOST/b/12"}}, "/b/1"},
			{"all", cache.Purge{All: true}, ""},
			{"a tag, soft", cache.Purge{Tags: []string{"1"}, Soft: true},
				"[/a/1] [/a/1?x] /a/2 [/b/1] /b/12"},
			{"a URL, soft", cache.Purge{URLs: []string{"HOST/a/2"}, Soft: true},
				"/a/1 /a/1?x [/a/2] /b/1 /b/12"},
			{"all, soft", cache.Purge{All: true, Soft: true}, "[/a/1] [/a/1?x] [/a/2] [/b/1] [/b/12]"},
		} {
			s := start(t, m, cache.Settings{}, tagged)
			for _, target := range targets {
				get(t, s, target)
			}
			for _, list := range [][]string{tt.p.URLs, tt.p.Prefixes} {
				for i := range list {
					list[i] = strings.Replace(list[i], "HOST", "HTTP://TEST.example", 1)
					if m.TLS {
						list[i] = strings.Replace(list[i], "HTTP:", "https:", 1)
					}
				}
			}
			if err := s.store.Purge(tt.p); err != nil {
				t.Error(err)
			}
			if got := left(t, s, targets...); got != tt.want {
				t.Errorf("%s: left %q, want %q", tt.name, got, tt.want)
			}
		}
	}, modes.Direct)
}

// TestPurgeMistakes: a purge that names nothing, or no URL, is an error and has no effect.
func TestPurgeMistakes(t *testing.T) {
	store := open(t)
	for want, p := range map[string]cache.Purge{
		"nothing to purge: expected a URL, a prefix, a tag, or all": {Soft: true},
		`not a URL: ""`:     {URLs: []string{""}},
		`not a URL: "a\nb"`: {Prefixes: []string{"a\nb"}},
		`not a tag: "a, b"`: {Tags: []string{"a, b"}},
		`not a tag: ""`:     {Tags: []string{""}, All: true},
	} {
		if err := store.Purge(p); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", p, err, want)
		}
	}
}

// TestPurgeMethod: PURGE is for clients of purge_from, and never reaches the application.
func TestPurgeMethod(t *testing.T) {
	targets := []string{"/a/1", "/a/2", "/b/1"}
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		own := "127.0.0.1"
		if m.UNIX {
			own = "unix:"
		}
		for _, tt := range []struct {
			name, request string
			fields        []string
			from          []string
			status        int
			want          string
		}{
			{"nobody may", "/a/1", nil, nil, 403, "/a/1 /a/2 /b/1"},
			{"others may", "/a/1", nil, []string{"192.0.2.0/24"}, 403, "/a/1 /a/2 /b/1"},
			{"a URL", "/a/1", nil, []string{own}, 200, "/a/2 /b/1"},
			{"another URL", "/a/3", nil, []string{own}, 200, "/a/1 /a/2 /b/1"},
			{"a prefix", "/a/*", nil, []string{own}, 200, "/b/1"},
			{"a tag", "/", []string{"Surrogate-Key: x 1"}, []string{own}, 200, "/a/2"},
			{"tags", "/", []string{"Cache-Tag: b, 2"}, []string{own}, 200, "/a/1"},
			{"soft", "/a/1", []string{"Soft-Purge: 1"}, []string{own}, 200, "[/a/1] /a/2 /b/1"},
		} {
			s := start(t, m, cache.Settings{PurgeFrom: tt.from},
				func(req *conn.Request, w *conn.Response) int {
					if req.Method() == "PURGE" {
						t.Error("PURGE reached the application")
					}
					return tagged(req, w)
				})
			for _, target := range targets {
				get(t, s, target)
			}
			if a := s.Request("PURGE "+tt.request, tt.fields, ""); a.StatusCode != tt.status {
				t.Errorf("%s: %d %s", tt.name, a.StatusCode, a.Text)
			}
			if got := left(t, s, targets...); got != tt.want {
				t.Errorf("%s: left %q, want %q", tt.name, got, tt.want)
			}
		}
	})
	if _, err := cache.New(open(t), cache.Settings{PurgeFrom: []string{"x"}},
		handlers.Env{}); err == nil ||
		!strings.HasPrefix(err.Error(), "purge_from") {
		t.Errorf("a network that is none: %v", err)
	}
}

// TestPurgeOfKey: on a route with a key of its own, PURGE is about that key, and a program names
// its text.
func TestPurgeOfKey(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := start(t, m, cache.Settings{Key: "page {path}", PurgeFrom: []string{"127.0.0.1", "unix:"}},
			tagged)
		for _, purge := range []func(){
			func() { s.Request("PURGE /a?whatever", nil, "") },
			func() {
				if err := s.store.Purge(cache.Purge{URLs: []string{"page /a"}}); err != nil {
					t.Error(err)
				}
			},
		} {
			get(t, s, "/a?1")
			get(t, s, "/b")
			if got := left(t, s, "/a?2"); got != "/a?2" {
				t.Errorf("left %q before the purge", got)
			}
			purge()
			if got := left(t, s, "/a?3", "/b"); got != "/b" {
				t.Errorf("left %q", got)
			}
		}
	}, modes.Direct)
}

// TestPurgeShared: what one process purges, others do as well, and each once.
func TestPurgeShared(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		var all [2]*cached
		for i := range all {
			all[i] = start(t, m, cache.Settings{}, tagged)
			get(t, all[i], "/a/1")
			get(t, all[i], "/b/1")
		}
		var mu sync.Mutex
		var sent []string
		all[0].store.Share(func(text []byte, lasting bool) {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, fmt.Sprintf("%s %t", text, lasting))
			if err := all[1].store.Shared(text); err != nil {
				t.Error(err)
			}
		})
		if err := all[0].store.Purge(cache.Purge{Tags: []string{"a"}, Soft: true}); err != nil {
			t.Error(err)
		}
		for i, s := range all {
			if got := left(t, s, "/a/1", "/b/1"); got != "[/a/1] /b/1" {
				t.Errorf("process %d: left %q", i, got)
			}
		}
		all[0].Request("POST /b/1", nil, "")
		for i, s := range all {
			if got := left(t, s, "/b/1"); got != "" {
				t.Errorf("process %d: left %q after a POST to one", i, got)
			}
		}
		mu.Lock()
		said := fmt.Sprint(sent)
		mu.Unlock()
		for i := range all {
			get(t, all[i], "/c/\xe4")
		}
		all[0].Request("POST /c/\xe4", nil, "") // a target that is not UTF-8
		for i, s := range all {
			if got := left(t, s, "/c/\xe4"); got != "" {
				t.Errorf("process %d: left %q after a POST to one", i, got)
			}
		}
		all[0].store.Share(nil)
		_ = all[0].store.Purge(cache.Purge{All: true})
		want := `[{"tags":["a"],"soft":true} true {"urls":["` + scheme(m) +
			`://test.example/b/1"]} false]`
		if said != want {
			t.Errorf("%q", sent)
		}
		for _, text := range []string{"", "{}", `{"tags":[""]}`} {
			if all[1].store.Shared([]byte(text)) == nil {
				t.Errorf("%q is no purge", text)
			}
		}
	}, modes.Direct)
}

// TestPurgeWhileFilling: an answer that was begun before a purge is not kept after it.
func TestPurgeWhileFilling(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		asked, answer := make(chan bool, 1), make(chan bool, 1)
		s := start(t, m, cache.Settings{}, func(req *conn.Request, w *conn.Response) int {
			asked <- true
			<-answer
			return tagged(req, w)
		})
		done := make(chan bool)
		go func() { defer close(done); get(t, s, "/a/1") }()
		<-asked
		if err := s.store.Purge(cache.Purge{Tags: []string{"a"}}); err != nil {
			t.Error(err)
		}
		answer <- true
		<-done
		answer <- true
		if got := left(t, s, "/a/1"); got != "" {
			t.Errorf("left %q", got)
		}
		<-asked
	}, modes.Direct)
}

// TestSoftPurgeAges: what was purged softly becomes staler, as anything that is stale does.
func TestSoftPurgeAges(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		var n atomic.Int32
		s := start(t, m, cache.Settings{}, counting(&n, "max-age=1000, stale-while-revalidate=20"))
		get(t, s, "/")
		if err := s.store.Purge(cache.Purge{All: true, Soft: true}); err != nil {
			t.Error(err)
		}
		s.Skip(30 * time.Second)
		if a, said := get(t, s, "/"); a.Text != "2" {
			t.Errorf("half a minute after the purge: %s", said)
		}
	}, modes.Direct)
}

func scheme(m modes.Mode) string {
	if m.TLS {
		return "https"
	}
	return "http"
}
