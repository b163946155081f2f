package limit_test

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/limit"
	"github.com/lwango/lwango/internal/test/server"
)

// In the configuration of a site or a route:
//
//	limit = { requests = "2/h" }
func ExampleNew() {
	twice, err := limit.New(limit.Settings{Requests: limit.Rate{Count: 2, Per: time.Hour}},
		handlers.Env{})
	if err != nil {
		log.Fatal(err)
	}
	hello := func(_ *conn.Request, resp *conn.Response) int { return resp.Text(200, "Hello") }

	url, stop := server.StartExample(twice(hello))
	defer stop()
	for range 3 {
		answer, err := http.Get(url)
		if err != nil {
			log.Fatal(err)
		}
		answer.Body.Close()
		fmt.Println(answer.Status)
	}
	// Output:
	// 200 OK
	// 200 OK
	// 429 Too Many Requests
}
