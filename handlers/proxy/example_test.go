package proxy_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/server"
)

// In code alone, the proxy is a Handler as any other.
func ExampleNew() {
	application := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "You have asked for %s.", r.URL)
	}))
	defer application.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	s := proxy.To(application.Listener.Addr().String())
	s.StripPrefix = true
	api, err := proxy.New(ctx, s, handlers.Env{Prefix: "/api/"})
	if err != nil {
		log.Fatal(err)
	}
	mux := handlers.NewMux()
	mux.Handle("/api/", api)

	url, stop := server.StartExample(mux.Serve)
	defer stop()
	server.Show(http.Get(url + "/api/roses?red"))
	// Output:
	// 200 OK
	// You have asked for /roses?red.
}

// In the configuration:
//
//	module = "proxy"
//	address = ["127.0.0.1:9000"]
func ExampleRegister() {
	application := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "You have asked for %s, and come from %s.", r.URL, r.Header.Get("X-Forwarded-For"))
	}))
	defer application.Close()

	var r handlers.Registry
	proxy.Register(&r)
	module, _ := r.Module("proxy")
	settings := module.NewSettings().(*proxy.Settings) // with the defaults
	settings.Address = []string{application.Listener.Addr().String()}
	h, err := module.Build(settings, handlers.Env{})
	if err != nil {
		log.Fatal(err)
	}

	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url + "/roses?red"))
	// Output:
	// 200 OK
	// You have asked for /roses?red, and come from 127.0.0.1.
}
