package echo_test

import (
	"net/http"
	"strings"

	"github.com/lwango/lwango/handlers/echo"
	"github.com/lwango/lwango/internal/test/server"
)

// The configuration says handler = "echo". A program can also serve it itself.
func ExampleServe() {
	url, stop := server.StartExample(echo.Serve) // lwango.Handle("/echo", echo.Serve)
	defer stop()
	server.Show(http.Post(url, "text/plain", strings.NewReader("anyone here?")))
	// Output:
	// 200 OK
	// anyone here?
}
