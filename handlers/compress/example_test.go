package compress_test

import (
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/compress"
	"github.com/lwango/lwango/internal/test/server"
)

// A server does this by itself, for all that handlers answer, unless its configuration says
// `compression = false`.
func ExampleSettings_Middleware() {
	compressed, err := compress.Defaults.Middleware()
	if err != nil {
		log.Fatal(err)
	}
	poem := func(_ *conn.Request, resp *conn.Response) int {
		return resp.Text(200, strings.Repeat("a rose is a rose is ", 1000))
	}

	url, stop := server.StartExample(compressed(poem))
	defer stop()
	for _, accepts := range []string{"gzip", "br, gzip", "identity"} {
		req, err := http.NewRequest("GET", url, nil)
		if err != nil {
			log.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", accepts)
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		answer.Body.Close()
		fmt.Printf("%s: %q, less than 1 kB: %v\n", accepts, answer.Header.Get("Content-Encoding"),
			answer.ContentLength < 1000)
	}
	// Output:
	// gzip: "gzip", less than 1 kB: true
	// br, gzip: "br", less than 1 kB: true
	// identity: "", less than 1 kB: false
}
