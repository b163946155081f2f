package proxy_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/server"
)

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

	url, stop := server.Serve(h)
	defer stop()
	server.Show(http.Get(url + "/roses?red"))
	// Output:
	// 200 OK
	// You have asked for /roses?red, and come from 127.0.0.1.
}
