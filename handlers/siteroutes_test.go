package handlers_test

import (
	"testing"

	"github.com/lwango/lwango/handlers"
)

func TestSiteRoutesOf(t *testing.T) {
	all := handlers.SiteRoutes{Prefixes: []string{"/a", "/a/b/", "/check"}}
	for path, want := range map[string]string{
		"/a": "/a", "/a/": "/a", "/a/x": "/a", "/a/b": "/a/b/", "/a/b/c": "/a/b/", "/ab": "", "/": "",
		"/check/in.php": "/check", "/checks": "",
	} {
		if got, ok := all.Of(path); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", path, got, ok)
		}
	}
	all.Prefixes = append(all.Prefixes, "/")
	if got, ok := all.Of("/x"); got != "/" || !ok {
		t.Errorf("/x: %q, %v", got, ok)
	}
}
