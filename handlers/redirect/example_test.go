package redirect_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/redirect"
	"github.com/lwango/lwango/internal/test/server"
)

// In the configuration:
//
//	module = "redirect"
//	to = "https://example.org{uri}"
//	status = 308
func ExampleNew() {
	h, err := redirect.New(redirect.Settings{
		To:     "https://example.org{uri}",
		Status: http.StatusPermanentRedirect,
	}, handlers.Env{})
	if err != nil {
		log.Fatal(err)
	}

	url, stop := server.StartExample(h)
	defer stop()
	answer, err := http.DefaultTransport.RoundTrip(get(url + "/shop?page=2")) // does not follow it
	if err != nil {
		log.Fatal(err)
	}
	answer.Body.Close()
	fmt.Println(answer.Status)
	fmt.Println(answer.Header.Get("Location"))
	// Output:
	// 308 Permanent Redirect
	// https://example.org/shop?page=2
}

func get(url string) *http.Request {
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		log.Fatal(err)
	}
	return req
}
