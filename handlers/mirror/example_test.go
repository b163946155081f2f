package mirror_test

import (
	"fmt"
	"io"
	"log"
	"net/http"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/mirror"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/server"
)

// In the configuration of a site or a route:
//
//	mirror = { to = "/next" }
func ExampleNew() {
	routes := &handlers.SiteRoutes{All: []handlers.Route{{Prefix: "/"}, {Prefix: "/next"}}}
	mw, err := mirror.New(mirror.Settings{To: "/next"}, handlers.Env{Prefix: "/",
		Process: around.In(around.Context{Routes: routes, Route: &routes.All[0]})})
	if err != nil {
		log.Fatal(err)
	}
	copied := make(chan string, 1)
	hello := func(_ *conn.Request, resp *conn.Response) int { return resp.Text(200, "Hello") }
	next := func(req *conn.Request, resp *conn.Response) int {
		copied <- req.Method() + " " + req.Target()
		return resp.Text(200, "nobody gets this")
	}
	router, err := handlers.NewRouter([]handlers.Site{{Around: routes.Inner, Routes: []handlers.Route{
		{Prefix: "/", Handler: mw(hello)}, {Prefix: "/next", Handler: next}}}})
	if err != nil {
		log.Fatal(err)
	}
	url, stop := server.StartExample(router.Serve)
	defer stop()
	answer, err := http.Get(url + "/shop?x=1")
	if err != nil {
		log.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	fmt.Println(string(body))
	fmt.Println(<-copied)
	// Output:
	// Hello
	// GET /next/shop?x=1
}
