package health_test

import (
	"log"
	"net/http"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/health"
	"github.com/lwango/lwango/internal/test/server"
)

// In the configuration:
//
//	module = "health"
func ExampleNew() {
	h, err := health.New(health.Defaults, handlers.Env{})
	if err != nil {
		log.Fatal(err)
	}
	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url + "/ready"))
	server.Show(http.Get(url + "/live"))
	// Output:
	// 200 OK
	// ready
	//
	// 200 OK
	// live
}
