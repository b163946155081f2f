package handlers_test

import (
	"regexp"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/must"
)

// TestSiteRoutesOf: the route for a path is the one that a router would choose.
func TestSiteRoutesOf(t *testing.T) {
	all := handlers.SiteRoutes{All: []handlers.Route{{Prefix: "/a"}, {Prefix: "/a/b/"},
		{Prefix: "/check"}, {Prefix: "/a", Regexp: regexp.MustCompile(`\.php$`)},
		{Prefix: "/", Regexp: regexp.MustCompile(`\.p`)}, {Prefix: "/a/x.php", Exact: true},
		{Prefix: "/a", Exact: true}}}
	for i := range all.All {
		all.All[i].Handler = func(*conn.Request, *conn.Response) int { return 200 }
	}
	router := must.Get(handlers.NewRouter([]handlers.Site{{Routes: all.All}}))(t)
	for path, want := range map[string]string{
		"/a": "/a alone", "/a/": "/a", "/a/x": "/a", "/a/b": "/a/b/", "/a/b/c": "/a/b/", "/ab": "", "/": "",
		"/check/in.php": `/ with \.p`, "/check/in": "/check", "/checks": "", "/a/b/x.php": `/a with \.php$`,
		"/a/x.php": "/a/x.php alone", "/a/x.php/": `/ with \.p`, "/a/x.ph": `/ with \.p`,
	} {
		name := ""
		got := all.Of(path)
		if got != nil {
			name = got.Name()
		}
		if name != want {
			t.Errorf("%s: %q, want %q", path, name, want)
		}
		if _, i, _ := router.Lookup("", false, "GET", "a", path, path); i < 0 && got != nil ||
			i >= 0 && &all.All[i] != got {
			t.Errorf("%s: a router chooses %d", path, i)
		}
	}
}
