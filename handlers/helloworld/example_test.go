package helloworld_test

import (
	"net/http"

	"github.com/lwango/lwango/handlers/helloworld"
	"github.com/lwango/lwango/internal/test/server"
)

// The configuration says handler = "hello_world". A program can also serve it itself.
func ExampleServe() {
	url, stop := server.StartExample(helloworld.Serve) // lwango.Handle("/hello", helloworld.Serve)
	defer stop()
	server.Show(http.Get(url))
	server.Show(http.Get(url + "?name=Lwan"))
	// Output:
	// 200 OK
	// Hello, world!
	// 200 OK
	// Hello, Lwan!
}
