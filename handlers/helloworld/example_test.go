package helloworld_test

import (
	"net/http"

	"github.com/lwango/lwango/handlers/helloworld"
	"github.com/lwango/lwango/internal/exampletest"
)

// The configuration says handler = "hello_world". A program can also serve it itself.
func ExampleServe() {
	url, stop := exampletest.Serve(helloworld.Serve) // lwango.Handle("/hello", helloworld.Serve)
	defer stop()
	exampletest.Show(http.Get(url))
	exampletest.Show(http.Get(url + "?name=Lwan"))
	// Output:
	// 200 OK
	// Hello, world!
	// 200 OK
	// Hello, Lwan!
}
