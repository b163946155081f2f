package response_test

import (
	"log"
	"net/http"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/response"
	"github.com/lwango/lwango/internal/test/server"
)

// In the configuration:
//
//	module = "response"
//	status = 503
//	headers = { Retry-After = "3600" }
//	body = "Back in an hour."
func ExampleNew() {
	h, err := response.New(response.Settings{
		Status:  http.StatusServiceUnavailable,
		Headers: map[string]string{"Retry-After": "3600"},
		Body:    "Back in an hour.",
	}, handlers.Env{})
	if err != nil {
		log.Fatal(err)
	}

	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url))
	// Output:
	// 503 Service Unavailable
	// Back in an hour.
}
