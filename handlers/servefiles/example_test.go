package servefiles_test

import (
	"log"
	"net/http"
	"os"
	"path/filepath"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/test/server"
)

// folder makes a folder with a page in it.
func folder() (dir string) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte("<p>Welcome"),
		0o600); err != nil {
		log.Fatal(err)
	}
	return dir
}

// In the configuration:
//
//	module = "serve_files"
//	path = "./wwwroot"
func ExampleNew() {
	dir := folder()
	defer os.RemoveAll(dir)
	settings := servefiles.Defaults
	settings.Path = dir
	h, err := servefiles.New(settings, handlers.Env{})
	if err != nil {
		log.Fatal(err)
	}

	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url))
	// Output:
	// 200 OK
	// <p>Welcome
}

// A handler that decides by itself which file a client gets, here one for members only.
func ExampleSender() {
	dir := folder()
	defer os.RemoveAll(dir)
	files, err := servefiles.NewSender(servefiles.Settings{Path: dir}, handlers.Env{})
	if err != nil {
		log.Fatal(err)
	}
	h := func(req *conn.Request, resp *conn.Response) int {
		if req.Query().Get("member") != "yes" {
			return http.StatusForbidden
		}
		status, _ := files.Send(req, resp, "index.html", 200)
		return status
	}

	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url + "/?member=yes"))
	// Output:
	// 200 OK
	// <p>Welcome
}
