package https_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/https"
	"github.com/lwango/lwango/internal/test/server"
)

// In the configuration of a site:
//
//	https = "redirect"
func ExampleNew() {
	secure, err := https.New(https.Settings{HTTPS: "redirect"}, func() int { return 8443 })
	if err != nil {
		log.Fatal(err)
	}
	hello := func(_ *conn.Request, resp *conn.Response) int { return resp.Text(200, "Hello") }

	url, stop := server.StartExample(secure(hello))
	defer stop()
	req, err := http.NewRequest("GET", url+"/garden?rose", nil)
	if err != nil {
		log.Fatal(err)
	}
	req.Host = "example.org"
	answer, err := http.DefaultTransport.RoundTrip(req) // does not follow it
	if err != nil {
		log.Fatal(err)
	}
	answer.Body.Close()
	fmt.Println(answer.StatusCode, answer.Header.Get("Location"))
	// Output: 301 https://example.org:8443/garden?rose
}
