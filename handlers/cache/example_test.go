package cache_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/server"
)

// A handler says how long its answer may be given to others.
func Example() {
	store, err := cache.Open(cache.Options{Memory: 64 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	layer, err := cache.New(store, cache.Settings{}, handlers.Env{})
	if err != nil {
		fmt.Println(err)
		return
	}
	url, stop := server.StartExample(layer(func(req *conn.Request, resp *conn.Response) int {
		resp.Cache(time.Minute, "greetings")
		return resp.Text(200, "hello")
	}))
	defer stop()
	for range 2 {
		answer, err := http.Get(url)
		server.Show(answer, err)
		fmt.Println(answer.Header.Get("Cache-Status"))
	}
	// Output:
	// 200 OK
	// hello
	// lwango; fwd=uri-miss; stored
	// 200 OK
	// hello
	// lwango; hit; ttl=60
}
