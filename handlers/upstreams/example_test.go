package upstreams_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/test/server"
)

// In the configuration:
//
//	module = "proxy"
//	address = "127.0.0.1:9000"
//	split = { name = "beta", cookie = { beta = "yes" }, address = "127.0.0.1:9001" }
func ExampleSettings() {
	application := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, name)
		}))
		return s.Listener.Addr().String()
	}
	var r handlers.Registry
	proxy.Register(&r)
	module, _ := r.Module("proxy")
	settings := module.NewSettings().(*proxy.Settings)
	settings.Address = []string{application("stable")}
	settings.Split = []upstreams.Split{{Name: "beta", Cookie: map[string]string{"beta": "yes"},
		Address: []string{application("beta")}}}
	h, err := module.Build(settings, handlers.Env{})
	if err != nil {
		log.Fatal(err)
	}

	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url))
	req, _ := http.NewRequest("GET", url, nil)
	req.AddCookie(&http.Cookie{Name: "beta", Value: "yes"})
	server.Show(http.DefaultClient.Do(req))
	// Output:
	// 200 OK
	// stable
	// 200 OK
	// beta
}
