package fastcgi_test

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"path/filepath"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/server"
)

// In the configuration:
//
//	module = "fastcgi"
//	address = "unix:/run/php/php-fpm.sock"
//	script_path = "/srv/www"
//
// Instead of PHP-FPM the application is one of package net/http/fcgi here.
func ExampleRegister() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "index.php"), nil, 0o600); err != nil {
		log.Fatal(err)
	}
	application, err := net.Listen("unix", filepath.Join(dir, "app.sock"))
	if err != nil {
		log.Fatal(err)
	}
	defer application.Close()
	go fcgi.Serve(application, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		script := filepath.Base(fcgi.ProcessEnv(r)["SCRIPT_FILENAME"])
		fmt.Fprintf(w, "%s, asked for %s", script, r.URL.Query().Get("dish"))
	}))

	var r handlers.Registry
	fastcgi.Register(&r)
	m, _ := r.Module("fastcgi")
	settings := m.NewSettings().(*fastcgi.Settings)
	settings.Address = []string{"unix:" + application.Addr().String()}
	settings.ScriptPath = dir
	h, err := m.Build(settings, handlers.Env{Prefix: "/"})
	if err != nil {
		log.Fatal(err)
	}

	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url + "/?dish=soup"))
	// Output:
	// 200 OK
	// index.php, asked for soup
}
