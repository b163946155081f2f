package errorpages_test

import (
	"log"
	"net/http"
	"os"
	"path/filepath"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/errorpages"
	"github.com/lwango/lwango/internal/test/server"
)

// In the configuration of a site or a route:
//
//	error_pages = { 404 = "lost.html" }
func ExampleNew() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "lost.html"), []byte("<p>Nothing grows here."),
		0o600); err != nil {
		log.Fatal(err)
	}
	pages, err := errorpages.New(map[string]string{"404": "lost.html"}, handlers.Env{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	nothing := func(*conn.Request, *conn.Response) int { return 404 }

	url, stop := server.StartExample(pages.Outer(pages.Inner(nothing)))
	defer stop()
	server.Show(http.Get(url))
	// Output:
	// 404 Not Found
	// <p>Nothing grows here.
}
