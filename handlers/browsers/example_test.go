package browsers_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/browsers"
	"github.com/lwango/lwango/internal/test/server"
)

// In the configuration of a site or a route:
//
//	cors = { origins = ["https://app.example.org"] }
func ExampleNewCORS() {
	readable, err := browsers.NewCORS(browsers.CORS{Origins: []string{"https://app.example.org"}})
	if err != nil {
		log.Fatal(err)
	}
	hello := func(_ *conn.Request, resp *conn.Response) int { return resp.Text(200, "Hello") }

	url, stop := server.StartExample(readable(hello))
	defer stop()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Origin", "https://app.example.org")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	answer.Body.Close()
	fmt.Println(answer.Header.Get("Access-Control-Allow-Origin"), answer.Header.Get("Vary"))
	// Output: https://app.example.org Origin
}
