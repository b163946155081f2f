// Package httphello is the handler of net/http that the bridge work serves twice: by net/http, and by lwango through its
// bridge.
package httphello

import (
	"io"
	"net/http"
)

// Path is where both have it.
const Path = "/bridge"

// Handler answers as every server of the benchmark does, and sets the fields itself that the others have from elsewhere.
var Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	header := w.Header()
	header.Set("Server", "httphello")
	header.Set("Content-Type", "text/plain")
	io.WriteString(w, "Hello, world!")
})
